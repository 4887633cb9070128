"""RawKernel and RawModule: CUDA C++ text, compiled when first called, for the device of the call's tensors."""

from __future__ import annotations

import struct
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from kernels import replay
from kernels.cuda import arguments, cpu
from kernels.cuda.errors import CompileError, LaunchError
from kernels.cuda.host_code import without_host_code
from kernels.cuda.includes import expanded
from kernels.cuda.parameters import declared
from kernels.cuda.source import Source, kernels_in
from kernels.watch import Watch

watched = Watch()
"""`with watched(by):` calls `by(kernel, grid, block, args, shared_mem)` for every launch."""


class RawModule:
    """CUDA C++ source with any number of kernels, as in CuPy.

    code: the source. path: the file it is from, which errors name; without `code`, the file is read. `#include "…"` finds files
        in the folder of the one that has it, then in kernels/cuda/device. All of them are read when the module is made.
    options: compiler options such as "-DBLOCK=256", "-std=c++17" or "-Iinclude".
    name_expressions: kernels by C++ expression, which templates need: "layer_norm<float>".
    enable_cooperative_groups: launches are cooperative: all blocks of a grid are resident together and may wait for each
        other by `cooperative_groups::this_grid().sync()`. A grid larger than the GPU holds is a LaunchError; a CPU holds
        what an H200 would.

    Nothing is compiled before a kernel is called. The source is trusted: it runs in this process.
    """

    def __init__(
        self,
        *,
        code: str | None = None,
        path: str | Path | None = None,
        options: Sequence[str] = (),
        name_expressions: Sequence[str] | None = None,
        enable_cooperative_groups: bool = False,
    ) -> None:
        if code is None and path is None:
            raise TypeError("RawModule needs code= or path=")
        if isinstance(options, str):
            raise TypeError(f"options must be a tuple of strings, got the string {options!r}")
        self.code = Path(path).read_text() if code is None else code
        if not isinstance(self.code, str):
            raise TypeError(f"code must be a string of CUDA C++, got {type(code).__name__}")
        self.options = tuple(options)
        self._cooperative = bool(enable_cooperative_groups)
        self._names = list(dict.fromkeys(name_expressions or ()))
        first = (self._names or kernels_in(self.code) or ["module"])[0].split("<")[0].split("::")[-1]
        filename = f"{first}.cu" if path is None else Path(path).name
        whole, files = expanded(self.code, filename, None if path is None else Path(path).parent)
        whole, skipped = without_host_code(whole)
        if skipped:
            names = ", ".join(dict.fromkeys(skipped))
            print(f"{filename}: left out {names}: here kernels are launched from Python", file=sys.stderr)
        self._source = Source(whole, filename, self.options, (), files)
        self._functions: dict[tuple[torch.device, str], Any] = {}
        self._lock = threading.RLock()

    @property
    def name_expressions(self) -> tuple[str, ...]:
        """The kernels known by name: those given, and those asked for since."""
        return tuple(self._names)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy in another process needs, which compiles for itself."""
        return {**self.__dict__, "_functions": {}, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    def get_function(self, name: str) -> Kernel:
        """The kernel of that name, or of that name expression."""
        if name not in self._names:
            self._names.append(name)
        return Kernel(self, name)

    def get_global(self, name: str, device: torch.device | str | None = None) -> torch.Tensor:
        """The bytes of a `__device__` or `__constant__` variable: a uint8 tensor of shape (bytes,) that shares its memory.

        name: as the source has it, "table" or "space::table". `.view(torch.float32)` makes an array of floats of it, which
        can be read and written like any tensor. device: the variable of the kernels on that device; by default the
        current GPU, if there is one. CuPy's method of that name returns an address.

        Every kernel of the source has the same variable, but for instances of templates that were asked for after the first
        launch or `get_global`: name those in `name_expressions`. ValueError: the source has no such variable or no kernel.
        """
        device = arguments.device_of(()) if device is None else torch.empty(0, device=device).device
        names = self._names or kernels_in(self._source.code)
        if not names:
            raise ValueError(f"the source has no kernel that could use {name}")
        variable = self._function(device, names[0]).variable(name)
        if variable is None:
            raise ValueError(f"the source has no __device__ or __constant__ variable {name}, or no kernel uses it")
        return variable

    def first_that_compiles(self, name: str, load: Callable[[Source], Any]) -> Any:
        """`load(source)` with all kernels of the source, so that they share its variables, or else with those asked for."""
        wanted = tuple(self._names or [name])
        # In one order, whichever is asked for first: what is compiled is kept by its content.
        everything = tuple(dict.fromkeys((*kernels_in(self._source.code), *sorted(wanted))))
        try:
            return load(replace(self._source, names=everything))
        except CompileError:
            if everything == wanted:
                raise
            # It may be about a kernel that no one asked for, or that is not there on account of an #if.
            return load(replace(self._source, names=wanted))

    def _function(self, device: torch.device, name: str) -> Any:
        """The kernel compiled for a device: a `cpu.Function` or a `gpu.Function`."""
        with self._lock:
            if (device, name) not in self._functions:
                for each, function in self.first_that_compiles(name, lambda source: _load(source, device)).items():
                    self._functions.setdefault((device, each), function)
            return self._functions[device, name]


def _load(source: Source, device: torch.device) -> dict[str, Any]:
    if device.type == "cuda":
        from kernels.cuda import gpu  # CuPy is needed for a GPU alone

        return gpu.load(source, device)
    return cpu.load(source)


class Kernel:
    """One kernel of a module. Call it with grid, block and arguments."""

    def __init__(self, module: RawModule, name: str) -> None:
        self.name = self.__name__ = name
        self._module = module
        self._raised: int | None = None
        self._loaded: dict[torch.device, tuple[Any, arguments.Layout]] = {}
        self._declared = declared(module._source.code, name)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loaded": {}}

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """Bytes of dynamic shared memory that a launch may ask for. Can be set, up to 227 KiB on sm_90."""
        return arguments.SHARED_BYTES if self._raised is None else self._raised

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, value: int) -> None:
        self._raised = arguments.raised_limit(value)

    def __call__(self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], shared_mem: int = 0) -> None:
        """Launches the kernel over `grid` blocks of `block` threads, each a tuple of one to three integers.

        args: torch tensors, which become pointers to their data; Python ints, within the range of their parameter;
        NumPy scalars of exactly the parameter's size; Python floats for parameters of 8 bytes; bools; None for a null
        pointer. An integer for a parameter that the source declares `float`, or of another floating type, is a TypeError,
        and so is a float for an integer. A bfloat16 is passed by its bits, a np.uint16. All tensors are on one device,
        which decides where the kernel runs; without a tensor it runs on the current GPU, if there is one.
        shared_mem: bytes of dynamic shared memory per block.

        On a GPU the launch is queued on torch's current stream. On a CPU the kernel has run when this returns.
        ValueError and TypeError: grid, block, shared memory or an argument is not as said above. CompileError: the source
        does not compile. LaunchError: the kernel could not go on.
        """
        grid = arguments.dimensions(grid, "grid")
        block = arguments.dimensions(block, "block")
        arguments.block_threads(block)
        if not isinstance(args, (tuple, list)):
            raise TypeError(f"args must be a tuple of the kernel's arguments, got {type(args).__name__}")
        if watched.by:
            return watched.by(self, grid, block, args, shared_mem)
        device = None
        for arg in args:
            if isinstance(arg, torch.Tensor):
                device = arg.device  # of the first, which `pack` compares with the others
                break
        if device not in self._loaded:
            device = arguments.device_of(args)
        if device not in self._loaded:
            function = self._module._function(device, self.name)
            layout = arguments.Layout(function.sizes, function.offsets, self._declared)
            self._loaded[device] = function, layout
        function, layout = self._loaded[device]
        packed = layout.pack(args, device)
        shared_mem = arguments.shared_bytes(
            shared_mem, function.static_shared_bytes, self._raised, function.max_shared_bytes
        )
        error = function.launch(grid, block, args, packed, shared_mem, self._module._cooperative)
        if error:
            raise LaunchError(f"{self.name}: {error}")
        if replay.is_recording():
            values = [0 if arg is None else arg for arg in args]
            replay.launched(values, self._again(function, grid, block, shared_mem, layout.form(args)))

    def _again(
        self, function: Any, grid: tuple, block: tuple, shared_mem: int, form: struct.Struct | None
    ) -> Callable[[tuple], None] | None:
        """What makes a launch again that has been made, with other values, which `form` packs."""
        if form is None:
            return None
        pack, queue, cooperative = form.pack, function.queue, self._module._cooperative

        def again(values: tuple) -> None:
            error = queue(grid, block, pack(*values), shared_mem, cooperative)
            if error:
                raise LaunchError(f"{self.name}: {error}")

        return again

    def __repr__(self) -> str:
        return f"<CUDA kernel {self.name}>"


class RawKernel(Kernel):
    """One kernel from CUDA C++ text, as in CuPy: RawKernel(code, name)(grid, block, args, shared_mem=0)."""

    def __init__(
        self, code: str, name: str, options: Sequence[str] = (), *, enable_cooperative_groups: bool = False
    ) -> None:
        module = RawModule(
            code=code,
            options=options,
            name_expressions=(name,),
            enable_cooperative_groups=enable_cooperative_groups,
        )
        super().__init__(module, name)
        self.code = code
        self.options = tuple(options)
