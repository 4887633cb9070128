"""Checks of a launch, the same for a GPU and a CPU: grid, block, shared memory and the arguments of the kernel."""

from __future__ import annotations

import operator
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

from kernels.cuda.parameters import Parameter, refuse_other_kind
from kernels.cuda.pointees import dtypes_of, refuse_other_dtype
from kernels.hardware import LAUNCH_BLOCK, LAUNCH_GRID, REFERENCE

SHARED_BYTES = REFERENCE.static_shared_bytes_per_block  # of a block, static and dynamic together, unless raised
MAX_SHARED_BYTES = REFERENCE.shared_bytes_per_block
MAX_THREADS = REFERENCE.threads_per_block


def dimensions(value: Sequence[int], what: str) -> tuple[int, int, int]:
    """`value`, the `grid` or `block` of a launch, as three integers within CUDA's limits."""
    limits = LAUNCH_GRID if what == "grid" else LAUNCH_BLOCK
    if type(value) is tuple and len(value) == 1 and type(value[0]) is int and 0 < value[0] <= limits[0]:
        return value[0], 1, 1
    if not isinstance(value, (tuple, list)) or not 1 <= len(value) <= 3:
        raise TypeError(f"{what} must be a tuple of one to three integers, got {value!r}")
    x, y, z = sizes = (*value, 1, 1)[:3]
    if type(x) is type(y) is type(z) is int and 0 < x <= limits[0] and 0 < y <= limits[1] and 0 < z <= limits[2]:
        return sizes
    try:
        sizes = tuple(operator.index(size) for size in sizes)
    except TypeError:
        raise TypeError(f"{what} must be a tuple of integers, got {value!r}") from None
    for axis, size, limit in zip("xyz", sizes, limits, strict=True):
        if size < 1:
            hint = "; an empty grid cannot be launched: return before the launch when there is nothing to do"
            raise ValueError(f"{what} is {tuple(value)}: its {axis} must be at least 1" + hint * (what == "grid"))
        if size > limit:
            raise ValueError(f"{what} is {tuple(value)}: its {axis} is {size:,}, more than CUDA's limit of {limit:,}")
    return sizes


def block_threads(block: tuple[int, int, int]) -> int:
    """The number of threads in a block, at most 1,024."""
    threads = block[0] * block[1] * block[2]
    if threads > MAX_THREADS:
        raise ValueError(f"block is {block}: {threads:,} threads, more than the {MAX_THREADS:,} that a block may have")
    return threads


def shared_bytes(dynamic: int, static: int, raised: int | None, most: int = MAX_SHARED_BYTES) -> int:
    """`dynamic`, the `shared_mem` of a launch in bytes, if a block can have it beside its `static` shared memory."""
    try:
        dynamic = operator.index(dynamic)
    except TypeError:
        raise TypeError(f"shared_mem must be a number of bytes, got {dynamic!r}") from None
    if dynamic < 0:
        raise ValueError(f"shared_mem must not be negative, got {dynamic}")
    beside = f" beside {static:,} bytes of static shared memory" if static else ""
    if static + dynamic > most:
        raise ValueError(f"shared_mem is {dynamic:,} bytes{beside}: a block can have at most {most:,} bytes")
    if dynamic > (SHARED_BYTES - static if raised is None else raised):
        allowed = f"{SHARED_BYTES:,} bytes in all" if raised is None else f"max_dynamic_shared_size_bytes={raised:,}"
        raise ValueError(
            f"shared_mem is {dynamic:,} bytes{beside}, more than the limit of {allowed}: set the kernel's "
            f"max_dynamic_shared_size_bytes (together with static shared memory at most {most:,} bytes)"
        )
    return dynamic


def raised_limit(value: int) -> int:
    """A value for `max_dynamic_shared_size_bytes`."""
    value = operator.index(value)
    if not 0 <= value <= MAX_SHARED_BYTES:
        raise ValueError(f"max_dynamic_shared_size_bytes must be from 0 to {MAX_SHARED_BYTES:,}, got {value:,}")
    return value


def device_of(args: Sequence[Any]) -> torch.device:
    """The device that all tensors among `args` are on. Without a tensor: the current GPU, else the CPU."""
    device, first = None, 0
    for index, arg in enumerate(args):
        if isinstance(arg, torch.Tensor):
            if device is None:
                device, first = arg.device, index
            elif arg.device != device:
                raise ValueError(
                    f"argument {index} is a tensor on {arg.device}, but argument {first} is on {device}: "
                    "a kernel's tensors must be on one device"
                )
    if device is None:
        return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"argument {first} is a tensor on {device}: kernels run on cpu and cuda tensors")
    return device


class Layout:
    """Where the arguments of a kernel go: `sizes` and `offsets` of its parameters in bytes, `declared` as in its source."""

    def __init__(self, sizes: Sequence[int], offsets: Sequence[int], declared: Sequence[Parameter | None] = ()) -> None:
        self.sizes, self.offsets = tuple(sizes), tuple(offsets)
        # Else some of the source is for other machines.
        self._declared = declared if len(declared) == len(sizes) else (None,) * len(sizes)
        self._checked: dict[tuple[type, ...], tuple[struct.Struct, list[tuple[int, frozenset]], list[int]]] = {}

    def pack(self, args: Sequence[Any], device: torch.device) -> bytes:
        """The bytes of all arguments, whose tensors are on `device`."""
        kinds = (*map(type, args),)
        if checked := self._checked.get(kinds):
            form, tensors, nulls = checked
            values = [*args]
            for place in nulls:
                values[place] = 0
            for place, dtypes in tensors:
                tensor = args[place]
                if tensor.device != device or (dtypes and tensor.dtype not in dtypes):
                    break
                values[place] = tensor.data_ptr()
            else:
                try:
                    return form.pack(*values)
                except struct.error:
                    pass  # an int out of range of a signed parameter
        device_of(args)
        if len(args) != len(self.sizes):
            raise TypeError(f"the kernel takes {len(self.sizes)} arguments, got {len(args)}")
        packed = b""
        for index, (arg, size, offset) in enumerate(zip(args, self.sizes, self.offsets, strict=True)):
            if parameter := self._declared[index]:
                refuse_other_kind(index, arg, parameter, size)
                if isinstance(arg, torch.Tensor) and size == 8:
                    refuse_other_dtype(index, parameter.name, parameter.pointee, arg)
            packed = packed.ljust(offset, b"\0") + _pack_one(index, arg, size)
        # All checks but the range of an int are of types: arguments of the same need them once.
        codes = [_code(arg, size) for arg, size in zip(args, self.sizes, strict=True)]
        if all(codes):
            form, end = "<", 0
            for code, size, offset in zip(codes, self.sizes, self.offsets, strict=True):
                form, end = f"{form}{offset - end}x{code}", offset + size
            pointees = (one.pointee if one else "" for one in self._declared)
            tensors = [
                (place, frozenset(dtypes_of(pointee)))
                for place, (arg, pointee) in enumerate(zip(args, pointees, strict=True))
                if isinstance(arg, torch.Tensor)
            ]
            nulls = [place for place, arg in enumerate(args) if arg is None]
            self._checked[kinds] = struct.Struct(form), tensors, nulls
        return packed

    def form(self, args: Sequence[Any]) -> struct.Struct | None:
        """What packs arguments of the types of these, which were packed before, with addresses for tensors and 0 for None."""
        form, *_ = self._checked.get((*map(type, args),), (None,))
        return form


def _code(arg: Any, size: int) -> str | None:
    """How `struct` packs what `_pack_one` has packed; None where it does not."""
    if isinstance(arg, torch.Tensor) or arg is None:
        return "Q"
    if isinstance(arg, (bool, np.bool_)):
        return "?"
    if isinstance(arg, (float, np.floating)):
        return {2: "e", 4: "f", 8: "d"}.get(size)
    if isinstance(arg, (int, np.integer)):
        code = {1: "b", 2: "h", 4: "i", 8: "q"}.get(size)
        return code.upper() if code and isinstance(arg, np.unsignedinteger) else code
    return None


def _pack_one(index: int, arg: Any, size: int) -> bytes:
    if isinstance(arg, torch.Tensor):
        if isinstance(arg, FakeTensor):
            raise TypeError(
                f"argument {index} is a FakeTensor, which has no memory: register the kernel as an operator with a fake "
                "implementation (torch.library.register_fake), so that torch.compile does not call it"
            )
        if size != 8:
            raise TypeError(f"argument {index} is a tensor, but the parameter is no pointer: it takes {_bytes(size)}")
        return arg.data_ptr().to_bytes(8, "little")
    if isinstance(arg, (bool, np.bool_)):
        if size != 1:
            raise TypeError(
                f"argument {index} is a bool, of 1 byte, but the parameter takes {_bytes(size)}: "
                "pass int(…) or a NumPy scalar of its type"
            )
        return bytes([bool(arg)])
    if isinstance(arg, np.generic):  # before float: np.float64 is one
        if arg.nbytes != size:
            raise TypeError(
                f"argument {index} is a numpy.{arg.dtype.name}, of {_bytes(arg.nbytes)}, "
                f"but the parameter takes {_bytes(size)}"
            )
        return arg.tobytes()
    if isinstance(arg, int):
        try:
            return arg.to_bytes(size, "little", signed=arg < 0)
        except OverflowError:
            raise ValueError(f"argument {index} is {arg}, which does not fit a parameter of {_bytes(size)}") from None
    if isinstance(arg, float):
        if size != 8:
            hint = {2: ": pass np.float16(…)", 4: ": pass np.float32(…)"}.get(size, "")
            raise TypeError(
                f"argument {index} is a Python float, of 8 bytes like a double, "
                f"but the parameter takes {_bytes(size)}{hint}"
            )
        return struct.pack("<d", arg)
    if arg is None and size == 8:
        return bytes(8)
    hint = "; for an array, pass a torch tensor" if hasattr(arg, "__array_interface__") or hasattr(arg, "dtype") else ""
    raise TypeError(
        f"argument {index} is a {type(arg).__module__}.{type(arg).__qualname__}: pass a torch tensor, an int, a float, "
        f"a bool, a NumPy scalar, or None for a null pointer{hint}"
    )


def _bytes(size: int) -> str:
    return f"{size} byte" if size == 1 else f"{size} bytes"
