"""A kernel compiled so that it reports every access, and the library that it reports to."""

from __future__ import annotations

import ctypes
import functools
import os
import re
from pathlib import Path
from typing import NamedTuple

from kernels.cuda import Kernel, cpu
from kernels.cuda.cpu import build, compiler, elf
from kernels.cuda.cpu.variables import shared_variables, without_others
from kernels.cuda.source import Source
from kernels.lens.cuda.clang_accesses import keep_source_accesses
from kernels.lens.cuda.clang_lines import restore_lines

_HERE = Path(__file__).parents[1] / "cpu"
# The sanitizers' instrumentation without the sanitizers: what it calls is ours. The code stays as it is written, access by
# access, and its blocks stay in the order of the source, which the replay of warps relies on (cpu/replay.h).
_INSTRUMENTED = (
    "-DKERNELS_INSTRUMENTED",
    "-O1",
    "-g1",
    "-gdwarf-4",
    "-fsanitize=thread",
    "-fsanitize-coverage=trace-pc",
    "-fsanitize=bounds",
    "-fno-plt",
    "-Wl,--wrap=memcpy,--wrap=memmove,--wrap=memset",  # with a size that only the run knows, they are calls
)
_GCC = (
    "-fno-tree-sra",
    "-fno-ipa-sra",
    "-fno-reorder-blocks",
    "-fno-reorder-blocks-and-partition",
    "-fno-guess-branch-probability",
    "-fno-optimize-sibling-calls",
    "-fno-thread-jumps",  # which repeats a line for each way that leads to it: the lanes then run it one way after another
    "-fno-tree-sink",  # which moves a read that comes before a guard below it, where it never happens out of bounds
    "--param=tsan-instrument-func-entry-exit=0",
    # What a call that is not put in place reads to pass a structure is not seen.
    "-finline-functions",
    "-finline-small-functions",
    *(
        f"--param={limit}=1000000"
        for limit in (
            "max-inline-insns-single",
            "max-inline-insns-auto",
            "inline-unit-growth",
            "large-function-insns",
            "large-unit-insns",
            "large-stack-frame",
        )
    ),
    "--param=tsan-distinguish-volatile=1",
)
_CLANG = (
    *(
        word
        for option in (
            "-tsan-instrument-func-entry-exit=0",
            "-tsan-distinguish-volatile",
            "-tsan-instrument-read-before-write",
            "-simplifycfg-sink-common=false",
            "-simplifycfg-hoist-common=false",
            "-disable-branch-fold",
            "-disable-block-placement",
            "-disable-tail-duplicate",
            "-phi-node-folding-threshold=0",
            "-two-entry-phi-node-folding-threshold=0",
            "-inline-threshold=100000",
        )
        for word in ("-mllvm", option)
    ),
    # With them the way out of a loop comes before its body.
    "-Xclang",
    "-disable-lifetime-markers",
    "-fno-discard-value-names",  # which clang_accesses reads
    "-fsanitize-coverage=bb,no-prune",  # every basic block, as g++ does
    "-fno-sanitize=local-bounds",  # which would trap
)


# A local variable that no one gave a value holds the same nonsense in every run: for a float, something like -1.7e38.
_LOCALS = "-ftrivial-auto-var-init=pattern"


def lens_library() -> Path:
    """The library that instrumented kernels call."""
    return build.library_of(_HERE)


@functools.cache
def lens() -> ctypes.CDLL:
    """That library, loaded."""
    library = ctypes.CDLL(str(lens_library()))
    library.kernels_lens_prepare.restype = ctypes.c_void_p
    library.kernels_lens_result.restype = ctypes.c_char_p
    library.__cxa_demangle.restype = ctypes.c_char_p  # of the C++ library
    return library


class Variable(NamedTuple):
    """A variable of a kernel's source. Addresses are absolute, but those of shared memory are from where a thread has it."""

    name: str
    space: str
    begin: int
    size: int


class Instrumented(NamedTuple):
    """A loaded kernel, its library's file and address, and symbols and variables but for those of other kernels."""

    source: Source
    function: cpu.Function
    path: Path
    base: int
    symbols: list[elf.Symbol]
    variables: list[Variable]


def load(kernel: Kernel) -> Instrumented:
    """A kernel, instrumented."""
    return kernel._module.first_that_compiles(kernel.name, lambda source: _load(source, kernel.name))


def library(source: Source) -> Path:
    """The library of a source's kernels, instrumented."""
    options = [*_INSTRUMENTED, *[_LOCALS] * compiler.takes(_LOCALS)]
    if compiler.is_clang():
        return build.instrumented_library(
            source, [*options, *_CLANG], lens_library(), (keep_source_accesses, restore_lines)
        )
    return build.instrumented_library(source, [*options, *_GCC], lens_library())


def _load(source: Source, name: str) -> Instrumented:
    path = library(source)
    lens()
    functions = cpu.functions(source, path, _opened)
    function = functions[name]
    everything = elf.symbols(path)
    entry = next(one.address for one in everything if one.name == "kernels_entry_0")
    base = ctypes.addressof(functions[source.names[0]]._kernel) - entry
    symbols = without_others(everything, function.symbol, [one.symbol for one in functions.values()])
    known = {one.name for one in symbols}
    # C++ has no word for constant memory, so it is known by the names of its variables.
    constants = set(re.findall(r"\b__constant__\b[^;={]*?(\w+)\s*(?:\[[^\]]*\]\s*)*[;={]", source.code))
    variables = [
        Variable(
            plain := _plain(symbol), "constant" if plain in constants else "global", ctypes.addressof(value), len(value)
        )
        for symbol, value in function.memory.items()
        if symbol in known
    ]
    variables += [
        Variable(_plain(one.name), "shared", one.address, one.size) for one in shared_variables(source, symbols)
    ]
    return Instrumented(source, function, path, base, symbols, variables)


def _opened(path: Path, _: bool) -> ctypes.CDLL:
    """An instrumented library, which finds the lens before any other library of the process, such as the runtime."""
    return ctypes.CDLL(str(path), os.RTLD_NOW | os.RTLD_DEEPBIND)


def _plain(symbol: str) -> str:
    """The name of a variable as the source has it: the last of a mangled name."""
    if not symbol.startswith("_Z"):
        return symbol
    return lens().__cxa_demangle(symbol.encode(), None, None, None).decode().rpartition("::")[2]
