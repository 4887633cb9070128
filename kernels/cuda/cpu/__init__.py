"""Runs CUDA C on a CPU: the source compiled as C++, a fiber for each CUDA thread that waits, blocks on several OS threads.

KERNELS_CPU_THREADS sets how many OS threads a launch may use (default: one for each processor). KERNELS_CPU_PATIENCE sets
after how many seconds threads that wait for memory to change are given up, when nothing else happens (default: 10).
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import re
import struct
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from kernels.cuda import gpu_compiler
from kernels.cuda.cpu import build, elf, faults, guards, messages, warnings
from kernels.cuda.cpu.returns import returns_of
from kernels.cuda.cpu.variables import declared_variables, static_shared_bytes
from kernels.cuda.errors import CompileError
from kernels.cuda.order import current_seed, ends_only
from kernels.cuda.source import Source
from kernels.hardware import REFERENCE, REFERENCE_MULTIPROCESSORS, WARP

_PROCESSORS = os.cpu_count() or 1


class _Kernel(ctypes.Structure):
    """`kernels::Kernel` of include/kernels/abi.h."""

    _fields_ = [
        ("function", ctypes.c_void_p),
        ("thread", ctypes.c_void_p),
        ("run", ctypes.c_void_p),
        ("parameters", ctypes.c_uint32),
        ("sizes", ctypes.POINTER(ctypes.c_uint32)),
    ]


# `kernels::Settings` of runtime/launch.h, which the tensors to guard follow.
_SETTINGS = struct.Struct("@11IQdQQIIP4I")


class Function:
    """A kernel compiled for the CPU."""

    max_shared_bytes = REFERENCE.shared_bytes_per_block

    def __init__(
        self,
        symbol: str,
        source: Source,
        name: str,
        base: int,
        code: tuple[int, int],
        kernel: _Kernel,
        static_shared_bytes: int,
        variables: dict[str, tuple[int, int]],
        constants: frozenset[str],
        prints: bool,
    ) -> None:
        self.symbol = symbol  # its mangled name
        self._source, self._name, self._base = source, name, base
        self._code = base + code[0], base + code[1]
        self.guarded = True  # arguments and shared memory lie between memory that no one may use
        self._copies = not guards.keeps_pointers(source)
        self._kernel = kernel
        self.sizes = tuple(kernel.sizes[: kernel.parameters])
        # One after another, as entry.h takes them.
        self.offsets = tuple(itertools.accumulate(self.sizes, initial=0))[:-1]
        self.static_shared_bytes = static_shared_bytes
        self._variables = variables  # address and bytes by mangled name
        self._constants = constants  # those of them that the processor lets no one write to
        self._prints = prints

    def variable(self, name: str) -> torch.Tensor | None:
        """The bytes of a `__device__` or `__constant__` variable of the kernel's source, which it shares."""
        found = next((self._variables[symbol] for symbol in elf.mangled(name) if symbol in self._variables), None)
        if found is None:
            return None
        address, size = found
        return torch.frombuffer((ctypes.c_uint8 * size).from_address(address), dtype=torch.uint8)

    @functools.cached_property
    def _returns(self) -> tuple[int, int, int, int]:
        """Where threads may return before the kernel's end, as `kernels::Settings` has it."""
        found = returns_of(self._source, self._name)
        self._file = ctypes.create_string_buffer(found.file.encode())  # which the runtime reads
        return ctypes.addressof(self._file), *found[1:]

    @property
    def memory(self) -> dict[str, ctypes.Array]:
        """The bytes of all variables of the kernel's source that can change by their mangled names, which it shares."""
        return {
            name: (ctypes.c_uint8 * size).from_address(at)
            for name, (at, size) in self._variables.items()
            if name not in self._constants
        }

    def put_back(self, values: dict[str, bytes]) -> None:
        """What `memory` had, here or in another library of the source, whose compiler may have left out other variables."""
        memory = self.memory
        for name, value in values.items():
            if name in memory and len(memory[name]) == len(value):
                memory[name][:] = value

    def launch(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[Any],
        packed: bytes,
        shared_mem: int,
        cooperative: bool,
    ) -> str | None:
        """Runs the kernel to its end. An error's text, or None. packed: the bytes of `args`."""
        blocks, threads = grid[0] * grid[1] * grid[2], block[0] * block[1] * block[2]
        resident = _resident_blocks(threads, self.static_shared_bytes + shared_mem)
        if cooperative and blocks > resident:
            return (
                f"the grid of {blocks:,} blocks is too large for a cooperative launch: all of them must be resident together, "
                f"and an H200 holds {resident:,} of {threads:,} threads and their shared memory: launch at most "
                "as many, and let each block do more"
            )
        seed = current_seed()
        tensors = guards.guarded(args, self.offsets, self.sizes) if self.guarded and self._copies else ()
        settings = _SETTINGS.pack(
            *grid,
            *block,
            _os_threads() if seed is None else 1,
            resident,
            shared_mem,
            cooperative,
            seed is not None,
            seed or 0,
            _patience(os.environ.get("KERNELS_CPU_PATIENCE") or "10"),
            *self._code,
            self.guarded,
            len(tensors),
            *self._returns,
            ends_only(),
        )
        error = _launcher()(ctypes.byref(self._kernel), b"".join((settings, *tensors)), packed)
        if self._prints:
            _write_printed()
        if error is None:
            return None
        text, fault = error.decode(errors="replace"), _runtime().kernels_fault().contents
        if not fault.kind:
            return text
        at = fault.code - self._base
        return faults.explained(fault, text, self._source, self._name, at, args, self.offsets, shared_mem)

    def queue(
        self, grid: Sequence[int], block: Sequence[int], packed: bytes, shared_mem: int, cooperative: bool
    ) -> str | None:
        """`launch` of arguments that are known by their bytes alone."""
        return self.launch(grid, block, (), packed, shared_mem, cooperative)


def load(source: Source) -> dict[str, Function]:
    """The kernels of a source by name, compiled unless the cache has them."""
    verdict = gpu_compiler.verdict(source)
    library = build.kernel_library(source)
    found = functions(source, library, _open)
    verdict()
    for one in warnings.of(source, library):
        print(source.with_errors_located(f"{one.place}: warning: {one.words}"), file=sys.stderr)
    return found


def functions(source: Source, path: Path, open_library: Callable[[Path, bool], ctypes.CDLL]) -> dict[str, Function]:
    """The kernels of a library compiled from a source. Private to `open_library`: the library has variables."""
    _launcher()
    symbols = elf.symbols(path)
    objects = declared_variables(symbols)
    # What C++ would run when it is loaded, which is here and now.
    if any(one.name.startswith("_GLOBAL__sub_I") for one in symbols):
        outside = (one.name for one in objects if not one.name.startswith("_ZZ"))
        names = ", ".join(sorted(re.sub(r"^_ZL\d+", "", name) for name in outside))
        raise CompileError(
            f"{source.filename} does not compile: a variable outside of functions{f' ({names})' if names else ''} is given its "
            "value by a call or a constructor, and on a GPU nothing runs before the kernel: give it a constant, or write it "
            "in a kernel"
        )
    constants = frozenset(one.name for one in objects if not one.writable)
    try:
        library = open_library(path, len(objects) > len(constants))
    except OSError as error:  # a function of the source that it only declares
        raise CompileError(messages.explained(source, str(error))) from None
    kernels = [_Kernel.in_dll(library, f"kernels_entry_{number}") for number in range(len(source.names))]
    functions = {one.address: one for one in symbols if one.kind == elf.FUNCTION}
    base = ctypes.addressof(kernels[0]) - next(one.address for one in symbols if one.name == "kernels_entry_0")
    code = elf.code(path)
    found = [functions[kernel.function - base] for kernel in kernels]
    for name, function in zip(source.names, found, strict=True):
        # An instance of a template may be hidden on account of its arguments.
        if function.hidden and "<" not in name:
            raise CompileError(f"{source.filename}: {name} is not a kernel: declare it __global__")
    prints = any(one.name == "printf" for one in symbols)  # the headers' own, which is there when it is called
    variables = {one.name: (base + one.address, one.size) for one in objects}
    names = [one.name for one in found]
    return {
        name: Function(
            function.name,
            source,
            name,
            base,
            code,
            kernel,
            static_shared_bytes(source, name, function.name, names, symbols),
            variables,
            constants,
            prints,
        )
        for name, kernel, function in zip(source.names, kernels, found, strict=True)
    }


def _open(path: Path, private: bool) -> ctypes.CDLL:
    """The library, which is never unloaded, so that addresses stay good. Private: with variables of its own, as every
    module has on a GPU, though another module has the same source."""
    if not private:
        return ctypes.CDLL(str(path))
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix="private-", suffix=".so") as copy:
        copy.write(path.read_bytes())
        copy.flush()
        return ctypes.CDLL(copy.name)


@functools.cache
def _runtime() -> ctypes.CDLL:
    """The runtime, which from now on stands between kernels and the end of the process."""
    # Global, because kernels that read volatile memory call it by name.
    runtime = ctypes.CDLL(str(build.runtime_library()), ctypes.RTLD_GLOBAL)
    runtime.kernels_fault.restype = ctypes.POINTER(faults.Fault)
    runtime.kernels_catch_faults()
    return runtime


@functools.cache
def _launcher() -> Callable[..., bytes | None]:
    """`kernels_launch` of runtime/launch.cpp."""
    launch = _runtime().kernels_launch
    launch.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    launch.restype = ctypes.c_char_p
    return launch


def _write_printed() -> None:
    """Writes what kernels have printed to Python's stdout: a notebook's, not the process's."""
    take = _runtime().kernels_printed
    take.restype = ctypes.c_void_p
    size = ctypes.c_size_t()
    start = take(ctypes.byref(size))
    if size.value:
        sys.stdout.write(ctypes.string_at(start, size.value).decode(errors="replace"))
        sys.stdout.flush()


@functools.lru_cache
def _resident_blocks(threads: int, shared_bytes: int) -> int:
    """How many blocks an H200 holds at once, as far as threads and shared memory go."""
    by_warps = REFERENCE.warps_per_multiprocessor // -(-threads // WARP)
    by_shared_memory = REFERENCE.blocks_by_shared_memory(shared_bytes)
    return REFERENCE_MULTIPROCESSORS * min(REFERENCE.blocks_per_multiprocessor, by_warps, by_shared_memory)


@functools.lru_cache
def _patience(wanted: str) -> float:
    try:
        seconds = float(wanted)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ValueError(f"KERNELS_CPU_PATIENCE must be a number of seconds, got {wanted!r}")
    return seconds


def _os_threads() -> int:
    wanted = os.environ.get("KERNELS_CPU_THREADS", "")
    if not wanted:
        return _PROCESSORS
    if not wanted.isdigit() or int(wanted) < 1:
        raise ValueError(f"KERNELS_CPU_THREADS must be a positive integer, got {wanted!r}")
    return int(wanted)
