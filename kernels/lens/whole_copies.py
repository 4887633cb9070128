"""clang's intermediate code, in which a copy of a structure is one access.

clang takes a copy of a structure apart where only its members are used: a float4 that is read becomes four loads, where a
GPU has one. So what its front end writes, a call of memcpy with the structure's size and alignment, becomes a load and a
store of a vector, which it leaves whole. What the alignment does not allow stays as it is: a GPU too copies it by parts.
"""

from __future__ import annotations

import itertools
import re

# With pointers that name their type, up to clang 14, or without.
_COPY = re.compile(
    r"^  (?:tail )?call void @llvm\.memcpy\.(?P<pointers>p0i8\.p0i8|p0\.p0)\.i64\("
    r"(?:i8\*|ptr)(?: \w+)*? align (?P<to_align>\d+) (?P<to>[%@][^,]+), "
    r"(?:i8\*|ptr)(?: \w+)*? align (?P<from_align>\d+) (?P<from>[%@][^,]+), "
    r"i64 (?P<size>\d+), i1 false\)(?P<place>, !dbg !\d+)?.*$",
    re.MULTILINE,
)
_VECTORS = {4: "<4 x i8>", 8: "<2 x i32>", 16: "<4 x i32>"}  # vectors, since integers are taken apart too


def with_whole_copies(code: str) -> str:
    """The code, with copies of 4, 8 and 16 bytes that are aligned to their size made by one load and one store."""
    numbers = itertools.count()

    def whole(match: re.Match[str]) -> str:
        size, place = int(match["size"]), match["place"] or ""
        if size not in _VECTORS or min(int(match["to_align"]), int(match["from_align"])) < size:
            return match.group()
        vector, name = _VECTORS[size], f"%whole.{next(numbers)}"
        lines, pointers = [], {"from": match["from"], "to": match["to"]}
        if match["pointers"] == "p0.p0":
            kind = "ptr"
        else:
            kind = f"{vector}*"
            for end, pointer in pointers.items():
                lines.append(f"  {name}.{end} = bitcast i8* {pointer} to {kind}")
                pointers[end] = f"{name}.{end}"
        lines.append(f"  {name} = load {vector}, {kind} {pointers['from']}, align {size}{place}")
        lines.append(f"  store {vector} {name}, {kind} {pointers['to']}, align {size}{place}")
        return "\n".join(lines)

    return _COPY.sub(whole, code)
