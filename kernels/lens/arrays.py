"""Regions of memory by the names that the source has for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from kernels.cuda.source import Source

_ELEMENT_BYTES = {
    **dict.fromkeys(("char", "bool", "int8_t", "uint8_t"), 1),
    **dict.fromkeys(("short", "half", "__half", "__nv_bfloat16", "int16_t", "uint16_t"), 2),
    **dict.fromkeys(("float", "int", "unsigned", "__half2", "__nv_bfloat162", "int32_t", "uint32_t"), 4),
    **dict.fromkeys(("double", "long", "float2", "int2", "size_t", "int64_t", "uint64_t"), 8),
    **dict.fromkeys(("float4", "int4", "uint4", "double2"), 16),
}


class Region(NamedTuple):
    """Memory that a kernel may use. Addresses of static shared memory are from where a thread has it."""

    name: str
    begin: int
    end: int
    zone_begin: int
    zone_end: int
    space: str
    argument: int  # the first that lies in it, else -1


class Array(NamedTuple):
    """A region of memory by its name. `elements`: of how many bytes; `first`: bytes before the first element."""

    name: str
    space: str
    size: int
    element: int
    first: int = 0


def named_arrays(
    regions: Sequence[Region], args: Sequence[Any], source: Source, dynamic: str, dynamic_bytes: int
) -> list[Array]:
    """Of the regions by number, and of dynamic shared memory, known as `dynamic`."""
    found = []
    for region in regions:
        size = (region.end - region.begin) % 2**64
        if region.argument >= 0:
            arg = args[region.argument]
            found.append(Array(region.name, "global", size, arg.itemsize, arg.storage_offset() * arg.itemsize))
        else:
            found.append(Array(region.name, region.space, size, _element(source.code, region.name)))
    name = dynamic or "dynamic shared memory"
    return [*found, Array(name, "shared", dynamic_bytes, _element(source.code, dynamic))]


def _element(source: str, name: str) -> int:
    """Bytes of an element of a variable, by its declaration; 0 if that does not tell."""
    if not name:
        return 0
    declared = re.findall(rf"\b([A-Za-z_]\w*)\s+{re.escape(name.split()[0])}\s*(?:\[|;|=)", source)
    sizes = {_ELEMENT_BYTES.get(one, 0) for one in declared}
    return sizes.pop() if len(sizes) == 1 else 0


def address(array: Array | None, offset: int, size: int) -> str:
    """An address in terms of an argument or variable: so many bytes from its beginning, where `size` bytes are accessed."""
    if array is None:
        return f"address {offset % 2**64:#x}"
    offset, element = offset - array.first, array.element or size
    inside = f"{array.name}[{offset // element}]" if element else array.name
    return inside if not element or offset % element == 0 else f"byte {offset % element} of {inside}"


def outside(array: Array, offset: int, size: int) -> str:
    """Where an address is that lies outside."""
    element = array.element or size
    count, index = (array.size - array.first) // element, (offset - array.first) // element
    if offset < 0 or index < 0:
        before = -index
        return f"{'one element' if before == 1 else f'{before:,} elements'} before its beginning"
    past = index - count + 1
    whole = f"the end of {count:,}"
    if past <= 0:
        return f"partly past {whole} elements"
    return f"one past {whole}" if past == 1 else f"{past:,} past {whole}"


def indexed(arrays: Sequence[Array], length: int, line: str) -> Array | None:
    """The array of so many elements that an index in a line of the source is of, if there is one."""
    named = set(re.findall(r"(\w+)\s*\[", line))
    found = [one for one in arrays if one.name in named and one.element and one.size == one.element * length]
    return found[0] if len(found) == 1 else None


def with_name_in(array: Array, line: str) -> Array:
    """An array of several names, as dynamic shared memory may be, by the one that a line of the source uses."""
    return next((array._replace(name=name) for name in array.name.split() if name in re.findall(r"\w+", line)), array)
