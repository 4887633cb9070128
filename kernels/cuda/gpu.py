"""Runs CUDA C on a GPU through CuPy (NVRTC), on torch's current stream. Imported when a GPU is first used."""

from __future__ import annotations

import ctypes
import math
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import cupy
import torch
from cuda.bindings import driver
from cupy_backends.cuda.api.driver import (
    CUDADriverError,
    launchCooperativeKernel,
    launchKernel,
    occupancyMaxActiveBlocksPerMultiprocessor,
)

from kernels.cuda.cpu import elf
from kernels.cuda.cpu.headers import cuda_headers
from kernels.cuda.errors import CompileError
from kernels.cuda.source import NVRTC_HEADERS, Source

_SAME: Counter[tuple] = Counter()
_THREAD = threading.local()


class _Bytes:
    """Memory of a GPU, as torch takes it without copying. Keeps alive what the memory belongs to."""

    def __init__(self, address: int, size: int, owner: Any) -> None:
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}
        self._owner = owner


class Function:
    """A kernel compiled for one GPU."""

    def __init__(self, kernel: Any, device: torch.device) -> None:
        self._kernel = kernel
        self._address = kernel.kernel.ptr
        self._device, self._index = device, device.index
        parameters = _parameters(kernel.kernel.ptr)
        self.offsets = tuple(offset for offset, _ in parameters)
        self.sizes = tuple(size for _, size in parameters)
        # CuPy's own call of a kernel makes an object of every argument. Here they are written to where `_pointers` point.
        # A view of bytes, since a slice of an array of ctypes is assigned byte by byte.
        self._values = memoryview(bytearray(sum(parameters[-1]) if parameters else 1))
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._values))
        self._each = (ctypes.c_void_p * max(len(parameters), 1))(*(base + offset for offset in self.offsets))
        self._pointers = ctypes.addressof(self._each)
        self._lock = threading.Lock()
        self.static_shared_bytes = kernel.shared_size_bytes
        self.max_shared_bytes = torch.cuda.get_device_properties(device).shared_memory_per_block_optin
        self._max_threads = kernel.max_threads_per_block
        self._raised = kernel.max_dynamic_shared_size_bytes

    def variable(self, name: str) -> torch.Tensor | None:
        """The bytes of a `__device__` or `__constant__` variable of the kernel's module, which it shares."""
        _, module = driver.cuFuncGetModule(self._address)
        for symbol in elf.mangled(name):
            error, address, size = driver.cuModuleGetGlobal(module, symbol.encode())
            if error == driver.CUresult.CUDA_SUCCESS:
                return torch.as_tensor(_Bytes(int(address), size, self._kernel), device=self._device)
        return None

    def launch(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[Any],
        packed: bytes,
        shared_mem: int,
        cooperative: bool,
    ) -> str | None:
        """Queues the kernel on torch's current stream of the device. An error's text, or None."""
        threads = block[0] * block[1] * block[2]
        if threads > self._max_threads:
            return (
                f"block is {tuple(block)}: {threads:,} threads, but this kernel can have {self._max_threads:,} a block "
                "on this GPU, by its registers or its __launch_bounds__"
            )
        if torch._C._cuda_getDevice() == self._device.index:
            return self.queue(grid, block, packed, shared_mem, cooperative)
        with torch.cuda.device(self._device):
            return self.queue(grid, block, packed, shared_mem, cooperative)

    def queue(
        self, grid: Sequence[int], block: Sequence[int], packed: bytes, shared_mem: int, cooperative: bool
    ) -> str | None:
        """`launch`, where the device is the current one and the block is known to be not too large."""
        if not hasattr(_THREAD, "device"):
            _begin(self._device)
        if shared_mem > self._raised:
            self._kernel.max_dynamic_shared_size_bytes = self._raised = shared_mem
        if cooperative and (error := self._too_large(math.prod(grid), math.prod(block), shared_mem)):
            return error
        # What torch.cuda.current_stream() wraps in an object, which costs more than the launch.
        stream = torch._C._cuda_getCurrentRawStream(self._index)
        try:
            with self._lock:  # the driver copies the values before it returns
                self._values[: len(packed)] = packed
                # CuPy's calls of the driver cost less than those of cuda.bindings, which make an object of each argument.
                if cooperative:
                    launchCooperativeKernel(self._address, *grid, *block, shared_mem, stream, self._pointers)
                else:
                    launchKernel(self._address, *grid, *block, shared_mem, stream, self._pointers, 0)
        except CUDADriverError as error:
            return f"the launch failed: {error}"
        return None

    def _too_large(self, blocks: int, threads: int, shared_mem: int) -> str | None:
        """An error's text where a cooperative grid has more blocks than the GPU holds: CuPy would launch fewer, in silence."""
        a_multiprocessor = occupancyMaxActiveBlocksPerMultiprocessor(self._address, threads, shared_mem)
        resident = a_multiprocessor * torch.cuda.get_device_properties(self._device).multi_processor_count
        if blocks <= resident:
            return None
        return (
            f"the grid of {blocks:,} blocks is too large for a cooperative launch: all of them must be resident together, "
            f"and this GPU holds {resident:,} of {threads:,} threads and their shared memory: launch at most {resident:,}, "
            "each doing more"
        )


def load(source: Source, device: torch.device) -> dict[str, Function]:
    """The kernels of a source by name, compiled for a GPU."""
    options = source.options
    if not any(option.lstrip("-").startswith("std=") for option in options):
        options = (*options, "-std=c++17")
    options = (*options, f"-I{NVRTC_HEADERS}")
    if "mma.h" in source.code:
        # It includes a header that the packages CuPy takes its own from need not have.
        options = (*options, *(f"-I{folder}" for folder in cuda_headers()))
    # CuPy gives modules of the same source one set of device variables; each of ours has its own, as on a CPU.
    same = (source.code, options, source.names, device)
    _SAME[same] += 1
    if _SAME[same] > 1:
        options = (*options, f"-DKERNELS_MODULE={_SAME[same]}")
    with torch.cuda.device(device):
        torch.cuda.current_stream()  # torch makes the context
        module = cupy.RawModule(code=source.for_nvrtc, options=options, name_expressions=source.names)
        try:
            return {name: Function(module.get_function(name), device) for name in source.names}
        except cupy.cuda.compiler.CompileException as error:
            message = source.with_errors_located(error.get_message().strip())
            raise CompileError(f"{source.filename} does not compile (NVRTC):\n{message}") from None
        except cupy.cuda.driver.CUDADriverError as error:
            raise CompileError(f"{source.filename} compiles, but cannot be loaded: {error}") from None


def _begin(device: torch.device) -> None:
    """Gives this thread the GPU's context, which the driver asks for.

    A thread has none before its first call of CUDA's runtime, and a backward in a thread of PyTorch's may launch before that.
    """
    cupy.cuda.runtime.setDevice(device.index)
    _THREAD.device = device


def _parameters(function: int) -> list[tuple[int, int]]:
    """Offset and size in bytes of each parameter of a CUfunction."""
    parameters: list[tuple[int, int]] = []
    while True:
        error, offset, size = driver.cuFuncGetParamInfo(function, len(parameters))
        if error == driver.CUresult.CUDA_ERROR_INVALID_VALUE:  # there are no more
            return parameters
        if error != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"cuFuncGetParamInfo failed: {error.name}")
        parameters.append((offset, size))
