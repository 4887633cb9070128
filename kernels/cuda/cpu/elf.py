"""The symbols of a compiled library: which functions are kernels, and the thread-local variables of shared memory."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import NamedTuple

OWN = "kernels_own_"  # before a variable's name that the C library has for a function (translate.py)
OBJECT, FUNCTION, THREAD_LOCAL = 1, 2, 6  # kinds of symbols
_SYMBOL_TABLE = 2  # a kind of section
_HIDDEN = 2  # a visibility
_WRITABLE = 1  # a flag of a section
_LOADED, _EXECUTABLE = 1, 1  # a kind and a flag of a part that is loaded


class Symbol(NamedTuple):
    """A symbol: its mangled name, kind, address from the library's base, size in bytes, and whether it may be written to.

    A thread-local one's address is from the beginning of a thread's memory.
    """

    name: str
    kind: int
    hidden: bool
    address: int
    size: int
    writable: bool


def symbols(library: Path) -> list[Symbol]:
    """The symbols that a 64-bit little-endian ELF file defines, local ones too."""
    data = library.read_bytes()
    start, entry_size, count = *struct.unpack_from("<Q", data, 0x28), *struct.unpack_from("<HH", data, 0x3A)
    # name, type, flags, address, offset, size, link, info, alignment, entry size
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + number * entry_size) for number in range(count)]
    found = []
    for _, kind, _, _, offset, size, link, _, _, entry in sections:
        if kind != _SYMBOL_TABLE:
            continue
        names = sections[link][4]
        for position in range(offset, offset + size, entry):
            name, info, other, section, address, length = struct.unpack_from("<IBBHQQ", data, position)
            if section:
                text = _in_source(data[names + name : data.index(b"\0", names + name)].decode())
                # The linker makes hidden symbols local.
                hidden = other & 3 == _HIDDEN or info >> 4 == 0
                writable = section < count and bool(sections[section][2] & _WRITABLE)
                found.append(Symbol(text, info & 15, hidden, address, length, writable))
    return found


def _in_source(symbol: str) -> str:
    """The symbol as it would be if the variable had the name that the source has for it."""
    own = re.fullmatch(rf"(_ZL\d+)?{OWN}(\w+)", symbol)
    return symbol if own is None else mangled(own[2])[bool(own[1])]


def code(library: Path) -> tuple[int, int]:
    """Where a library's instructions begin and end, from its base."""
    data = library.read_bytes()
    start, entry_size, count = *struct.unpack_from("<Q", data, 0x20), *struct.unpack_from("<HH", data, 0x36)
    # type, flags, offset, address, physical address, size in the file, size, alignment
    parts = [struct.unpack_from("<IIQQQQQQ", data, start + number * entry_size) for number in range(count)]
    return next(
        (at, at + size) for kind, flags, _, at, _, _, size, _ in parts if kind == _LOADED and flags & _EXECUTABLE
    )


def mangled(name: str) -> tuple[str, ...]:
    """The symbols that a variable of that C++ name may have: global or static, at file scope or in namespaces."""
    *spaces, last = name.split("::")
    if not spaces:
        return name, f"_ZL{len(name)}{name}"
    outer = "".join(f"{len(space)}{space}" for space in spaces)
    return f"_ZN{outer}{len(last)}{last}E", f"_ZN{outer}L{len(last)}{last}E"
