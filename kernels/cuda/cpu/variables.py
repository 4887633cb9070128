"""Which symbols of a kernel's library are variables of its source."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernels.cuda.cpu import elf, translate
from kernels.cuda.errors import CompileError
from kernels.cuda.source import Source
from kernels.hardware import REFERENCE

# Objects of a library that are the headers' and the compiler's.
_NOT_VARIABLES = (
    "kernels_entry_",
    *(f"{start}{names}" for start in ("_ZN", "_ZNK", "_ZZN", "_ZZNK") for names in ("7kernels", "4cuda", "St")),
    "_ZT",
    "_ZGV",
    "__",
)


def declared_variables(symbols: Sequence[elf.Symbol]) -> list[elf.Symbol]:
    """The `__device__` and `__constant__` variables of a source, and what is static in its functions."""
    objects = (one for one in symbols if one.kind == elf.OBJECT and one.size)
    return [one for one in objects if not one.name.startswith(_NOT_VARIABLES)]


def without_others(symbols: Sequence[elf.Symbol], kernel: str, kernels: Sequence[str]) -> list[elf.Symbol]:
    """The symbols that a kernel may know of: but for what is local to other kernels. All by their mangled names."""
    local = [_local_prefix(other) for other in kernels if other != kernel]
    others = (*local, *(f"_ZGV{prefix[2:]}" for prefix in local))
    return [one for one in symbols if not one.name.startswith(others)]


def static_shared_bytes(
    source: Source, name: str, kernel: str, kernels: Sequence[str], symbols: Sequence[elf.Symbol]
) -> int:
    """Bytes of static shared memory of a kernel: its own variables and those of the source that belong to no kernel."""
    total = sum(one.size for one in shared_variables(source, without_others(symbols, kernel, kernels)))
    if total > REFERENCE.static_shared_bytes_per_block:
        raise CompileError(
            f"{source.filename}: {name} has {total:,} bytes of static shared memory, more than the "
            f"{REFERENCE.static_shared_bytes_per_block:,} that a block may have: use dynamic shared memory (extern __shared__) "
            "for more"
        )
    return total


def shared_variables(source: Source, symbols: Sequence[elf.Symbol]) -> list[elf.Symbol]:
    """The static shared variables of a source among the symbols of its library, at their addresses in a thread's memory."""
    # Besides shared memory: what the headers need, and where dynamic shared memory is.
    ours = ("_ZGV", "_ZTH", "_ZN7kernels", "__tls_guard")
    dynamic = "|".join(f"{len(one)}{one}" for one in translate.dynamic_shared_names(source)) or "(?!)"
    return [
        one
        for one in symbols
        if one.kind == elf.THREAD_LOCAL
        and not one.name.startswith(ours)
        # A pointer: another kernel may have a static variable of that name.
        and not (one.size == 8 and re.search(rf"(?:{dynamic})E?(?:_\d+)?$", one.name))
    ]


def _local_prefix(function: str) -> str:
    """How the mangled names of a function's static variables begin."""
    return f"_ZZ{function[2:]}E" if function.startswith("_Z") else f"_ZZ{len(function)}{function}E"
