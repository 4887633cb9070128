"""Runs CUDA C on a GPU through CuPy (NVRTC), on torch's current stream. Imported when a GPU is first used."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np
import torch
from cuda.bindings import driver
from cupy_backends.cuda.api.driver import occupancyMaxActiveBlocksPerMultiprocessor

from kernels.cuda.cpu import elf
from kernels.cuda.cpu.build import cuda_headers
from kernels.cuda.errors import CompileError
from kernels.cuda.source import Source

# What CuPy takes for a parameter of so many bytes; a struct of another size goes as raw bytes.
_SAME: Counter[tuple] = Counter()
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class _Bytes:
    """Memory of a GPU, as torch takes it without copying. Keeps alive what the memory belongs to."""

    def __init__(self, address: int, size: int, owner: Any) -> None:
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}
        self._owner = owner


class Function:
    """A kernel compiled for one GPU."""

    def __init__(self, kernel: Any, device: torch.device) -> None:
        self._kernel = kernel
        self._function = kernel.kernel  # what a call of the RawKernel looks up every time
        self._device = device
        self.sizes = _parameter_sizes(kernel.kernel.ptr)
        self.static_shared_bytes = kernel.shared_size_bytes
        self.max_shared_bytes = torch.cuda.get_device_properties(device).shared_memory_per_block_optin
        self._max_threads = kernel.max_threads_per_block
        self._raised = kernel.max_dynamic_shared_size_bytes

    def variable(self, name: str) -> torch.Tensor | None:
        """The bytes of a `__device__` or `__constant__` variable of the kernel's module, which it shares."""
        _, module = driver.cuFuncGetModule(self._function.ptr)
        for symbol in elf.mangled(name):
            error, address, size = driver.cuModuleGetGlobal(module, symbol.encode())
            if error == driver.CUresult.CUDA_SUCCESS:
                return torch.as_tensor(_Bytes(int(address), size, self._kernel), device=self._device)
        return None

    def launch(
        self, grid: Sequence[int], block: Sequence[int], packed: list[bytes], shared_mem: int, cooperative: bool
    ) -> str | None:
        """Queues the kernel on torch's current stream of the device. An error's text, or None."""
        threads = block[0] * block[1] * block[2]
        if threads > self._max_threads:
            return (
                f"block is {tuple(block)}: {threads:,} threads, but this kernel can have {self._max_threads:,} a block "
                "on this GPU, by its registers or its __launch_bounds__"
            )
        values = [np.frombuffer(value, _BITS.get(len(value), f"V{len(value)}"))[0] for value in packed]
        if torch.cuda.current_device() == self._device.index:
            return self._launch(tuple(grid), tuple(block), values, shared_mem, cooperative)
        with torch.cuda.device(self._device):
            return self._launch(tuple(grid), tuple(block), values, shared_mem, cooperative)

    def _launch(
        self, grid: tuple[int, ...], block: tuple[int, ...], values: list[Any], shared_mem: int, cooperative: bool
    ) -> str | None:
        if shared_mem > self._raised:
            self._kernel.max_dynamic_shared_size_bytes = self._raised = shared_mem
        if cooperative and (error := self._too_large(math.prod(grid), math.prod(block), shared_mem)):
            return error
        stream = cupy.cuda.Stream.from_external(torch.cuda.current_stream())
        try:
            self._function(grid, block, values, shared_mem, stream, cooperative)
        except cupy.cuda.driver.CUDADriverError as error:
            return f"the launch failed: {error}"
        return None

    def _too_large(self, blocks: int, threads: int, shared_mem: int) -> str | None:
        """An error's text where a cooperative grid has more blocks than the GPU holds: CuPy would launch fewer, in silence."""
        a_multiprocessor = occupancyMaxActiveBlocksPerMultiprocessor(self._function.ptr, threads, shared_mem)
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
    if "mma.h" in source.code:
        # It includes a header that the packages CuPy takes its own from need not have.
        options = (*options, *(f"-I{folder}" for folder in cuda_headers()))
    # CuPy gives modules of the same text one set of device variables; each of ours has its own, as on a CPU.
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


def _parameter_sizes(function: int) -> tuple[int, ...]:
    """The size in bytes of each parameter of a CUfunction."""
    sizes: list[int] = []
    while True:
        error, _, size = driver.cuFuncGetParamInfo(function, len(sizes))
        if error == driver.CUresult.CUDA_ERROR_INVALID_VALUE:  # there are no more
            return tuple(sizes)
        if error != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"cuFuncGetParamInfo failed: {error.name}")
        sizes.append(size)
