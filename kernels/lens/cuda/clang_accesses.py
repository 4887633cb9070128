"""clang's intermediate code, changed so that its accesses stay those of the source, as g++ leaves them.

clang takes a copy of a structure apart where only its members are used: a float4 that is read becomes four loads, where a
GPU has one. So a copy, for which clang's front end writes a call of memcpy, becomes a call of ours that no optimisation
looks into (kernels_lens_copy in cpu/instrumentation.cpp). What stands in braces, as in `*p = {a, b}`, is left to clang,
which like g++ writes it member by member.

clang also makes one load of two in different branches, from a chosen pointer. Nothing is moved across what may write, so
something that may stands before every branch.
"""

from __future__ import annotations

import re

from kernels.lens.cuda.clang_lines import name_loads_by_line

_INSTRUMENTED = re.compile(r"^attributes (#\d+) = \{[^}]*\bsanitize_thread\b", re.MULTILINE)
_FUNCTION = re.compile(r"^define [^\n]* (?P<attributes>#\d+) [^\n]*\{\n.*?^}$", re.MULTILINE | re.DOTALL)
_BRANCH = re.compile(r"^  (?=br |switch )", re.MULTILINE)
# Only memory that its arguments point to: there are none, so that two loads of one address may still become one.
_MAY_WRITE = '  call void asm sideeffect "", ""() argmemonly nounwind willreturn\n'
# Pointers name their type up to clang 14, and are plain `ptr` in later versions.
_COPY = re.compile(
    r"^  (?:tail )?call void @llvm\.memcpy\.[\w.]+\("
    r"(?P<pointer>i8\*|ptr)(?: \w+)*? align (?P<to_align>\d+) (?P<to>.+?), "
    r"(?:i8\*|ptr)(?: \w+)*? align (?P<from_align>\d+) (?P<from>.+?), "
    r"i64 (?P<size>\d+), i1 false\)(?P<place>, !dbg !\d+)?.*$",
    re.MULTILINE,
)
_LOCAL = re.compile(r"^  (%\S+) = alloca ", re.MULTILINE)
_CAST = re.compile(r"^  (%\S+) = bitcast (\S+)\* (%\S+) to i8\*", re.MULTILINE)
_VECTOR = re.compile(r"%struct\.(?:u?(?:char|short|int|long|longlong)|float|double)[24]")


def keep_source_accesses(code: str) -> str:
    """The code of a module as the front end writes it, before any optimisation, with values named."""
    instrumented = set(_INSTRUMENTED.findall(code))

    def rewritten(function: re.Match[str]) -> str:
        if function["attributes"] not in instrumented:
            return function.group()
        return _BRANCH.sub(rf"{_MAY_WRITE}\g<0>", _copies_called(function.group()))

    code = name_loads_by_line(_FUNCTION.sub(rewritten, code))
    to, source = (f"{'i8*' if 'i8*' in code else 'ptr'} nocapture {kind}only" for kind in ("write", "read"))
    return f"{code}\ndeclare void @kernels_lens_copy({to}, {source}, i64, i32, i32) argmemonly nounwind willreturn\n"


def _copies_called(function: str) -> str:
    """A function in which copies, but for those from one local variable to another, are calls."""
    local = set(_LOCAL.findall(function))
    casts = {name: (kind, of) for name, kind, of in _CAST.findall(function)}

    def called(match: re.Match[str]) -> str:
        (kind, to), (_, source) = (casts.get(match[end], ("", match[end])) for end in ("to", "from"))
        if {to, source} <= local or _is_in_braces(source, function):
            return match.group()
        ends = (to, int(match["to_align"])), (source, int(match["from_align"]))
        # What the type asks for, if that is known. clang says less of a vector in an array that is declared as one of floats.
        natural = int(match["size"]) if _VECTOR.fullmatch(kind) else 1
        natural = max((align for name, align in ends if name in local), default=natural)
        pointer, place = match["pointer"], match["place"] or ""
        aligned = ", ".join(f"i32 {max(natural, align)}" for _, align in ends)
        return (
            f"  call void @kernels_lens_copy({pointer} {match['to']}, {pointer} {match['from']}, "
            f"i64 {match['size']}, {aligned}){place}"
        )

    return _COPY.sub(called, function)


def _is_in_braces(name: str, function: str) -> bool:
    """Whether a value without a name in the source is built member by member."""
    unnamed = name.startswith(("%ref.tmp", "%agg.tmp"))
    return unnamed and bool(re.search(rf" = getelementptr [^\n]*{re.escape(name)}, i32 0, i32 ", function))
