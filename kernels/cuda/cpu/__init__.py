"""Runs CUDA C on a CPU: the text compiled as C++, a fiber for each CUDA thread that waits, blocks on several OS threads.

KERNELS_CPU_THREADS sets how many OS threads a launch may use (default: one for each processor).
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Callable, Sequence

from kernels.cuda import arguments
from kernels.cuda.cpu import build, elf, translate
from kernels.cuda.errors import CompileError
from kernels.cuda.source import Source

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


_Sizes = ctypes.c_uint32 * 6  # of the grid, then of the block


class Function:
    """A kernel compiled for the CPU."""

    max_shared_bytes = arguments.MAX_SHARED_BYTES

    def __init__(self, kernel: _Kernel, static_shared_bytes: int) -> None:
        self._kernel = kernel
        self.sizes = tuple(kernel.sizes[: kernel.parameters])
        self.static_shared_bytes = static_shared_bytes

    def launch(self, grid: Sequence[int], block: Sequence[int], packed: list[bytes], shared_mem: int) -> str | None:
        """Runs the kernel to its end. An error's text, or None.

        A block has 256 KiB of dynamic shared memory whatever `shared_mem` says.
        """
        error = _launcher()(ctypes.byref(self._kernel), _Sizes(*grid, *block), b"".join(packed), _os_threads())
        return error and error.decode(errors="replace")


def load(source: Source) -> dict[str, Function]:
    """The kernels of a source by name, compiled unless the cache has them."""
    path = build.kernel_library(source)
    library = ctypes.CDLL(str(path))  # never unloaded, so addresses stay good
    kernels = [_Kernel.in_dll(library, f"kernels_entry_{number}") for number in range(len(source.names))]
    symbols = elf.symbols(path)
    functions = {one.address: one for one in symbols if one.kind == elf.FUNCTION}
    base = ctypes.addressof(kernels[0]) - next(one.address for one in symbols if one.name == "kernels_entry_0")
    found = [functions[kernel.function - base] for kernel in kernels]
    for name, function in zip(source.names, found, strict=True):
        # An instance of a template may be hidden on account of its arguments.
        if function.hidden and "<" not in name:
            raise CompileError(f"{source.filename}: {name} is not a kernel: declare it __global__")
    return {
        name: Function(kernel, _static_shared_bytes(source, name, function.name, [one.name for one in found], symbols))
        for name, kernel, function in zip(source.names, kernels, found, strict=True)
    }


def _static_shared_bytes(
    source: Source, name: str, kernel: str, kernels: Sequence[str], symbols: Sequence[elf.Symbol]
) -> int:
    """Bytes of static shared memory of a kernel: its own variables and those of the text that belong to no kernel."""
    others = tuple(_local_prefix(other) for other in kernels if other != kernel)
    # Besides shared memory: what the headers need, and where dynamic shared memory is.
    ours = ("_ZGV", "_ZTH", "_ZN7kernels", "__tls_guard")
    dynamic = "|".join(f"{len(one)}{one}" for one in translate.dynamic_shared_names(source)) or "(?!)"
    total = sum(
        one.size
        for one in symbols
        if one.kind == elf.THREAD_LOCAL
        and not one.name.startswith(others + ours)
        and not re.search(rf"(?:{dynamic})E?(?:_\d+)?$", one.name)
    )
    if total > arguments.SHARED_BYTES:
        raise CompileError(
            f"{source.filename}: {name} has {total:,} bytes of static shared memory, more than the "
            f"{arguments.SHARED_BYTES:,} that a block may have: use dynamic shared memory (extern __shared__) for more"
        )
    return total


def _local_prefix(function: str) -> str:
    """How the mangled names of a function's static variables begin."""
    return f"_ZZ{function[2:]}E" if function.startswith("_Z") else f"_ZZ{len(function)}{function}E"


@functools.cache
def _launcher() -> Callable[..., bytes | None]:
    """`kernels_launch` of runtime/launch.cpp."""
    launch = ctypes.CDLL(str(build.runtime_library())).kernels_launch
    launch.argtypes = [ctypes.c_void_p, _Sizes, ctypes.c_char_p, ctypes.c_int]
    launch.restype = ctypes.c_char_p
    return launch


def _os_threads() -> int:
    wanted = os.environ.get("KERNELS_CPU_THREADS", "")
    if not wanted:
        return _PROCESSORS
    if not wanted.isdigit() or int(wanted) < 1:
        raise ValueError(f"KERNELS_CPU_THREADS must be a positive integer, got {wanted!r}")
    return int(wanted)
