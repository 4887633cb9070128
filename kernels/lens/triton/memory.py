"""The memory of a traced Triton launch: every argument at addresses of its own, which say what a pointer came from.

The interpreter's pointers are numbers. Here each storage gets a range of 2^44 such numbers and lies in its middle, so an
address far outside of it still tells whose it is, and nothing outside is ever read or written. bfloat16 lies widened to
float32, as in `kernels.triton.launch`, and is rounded at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from kernels.lens.arrays import Array
from kernels.triton.descriptors import base_of, with_base

_RANGE_BITS = 44
_BEGIN = 1 << _RANGE_BITS - 1  # of a storage in its range: a multiple of 256, as where torch's allocator puts it


class Region(NamedTuple):
    """A storage. `array`: what findings call it. `stretch`: bytes that the interpreter sees for each of its bytes."""

    array: Array
    real: int  # the address of its first byte, as the interpreter may use it
    stretch: int


class Memory:
    """The tensors among the arguments of a launch. `args`: what to give to the interpreter in place of them, by name."""

    def __init__(self, args: Mapping[str, Any]) -> None:
        self.regions: list[Region] = []
        self._numbers: dict[int, int] = {}  # regions from 1, by the address of what the interpreter is given
        self._given: dict[tuple[int, bool], torch.UntypedStorage] = {}  # by address, and whether it is widened
        self._widened: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        self.args = {name: self._enter(name, arg) for name, arg in args.items()}

    def _enter(self, name: str, arg: Any) -> Any:
        base = base_of(arg)
        return with_base(arg, self._tensor(name, base)) if isinstance(base, torch.Tensor) else arg

    def _tensor(self, name: str, arg: torch.Tensor) -> torch.Tensor:
        storage = arg.untyped_storage()
        wide = arg.dtype == torch.bfloat16
        key = storage.data_ptr(), wide
        if key not in self._given:
            given = self._wide(storage) if wide else storage
            array = Array(name, "global", storage.nbytes(), arg.itemsize, arg.storage_offset() * arg.itemsize)
            self._given[key] = given
            self.regions.append(Region(array, given.data_ptr(), 2 if wide else 1))
            self._numbers[given.data_ptr()] = len(self.regions)
        dtype = torch.float32 if wide else arg.dtype
        offset, shape, stride = arg.storage_offset(), arg.shape, arg.stride()
        return torch.empty(0, dtype=dtype).set_(self._given[key], offset, shape, stride)

    def _wide(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        memory = torch.empty(0, dtype=torch.bfloat16).set_(storage)
        wide = memory.float()
        self._widened.append((memory, wide, wide.clone()))
        return wide.untyped_storage()

    def address_of(self, tensor: torch.Tensor) -> int:
        """The number that stands for the address of a tensor of `args`."""
        storage = tensor.untyped_storage()
        number = self._numbers[storage.data_ptr()]
        return (number << _RANGE_BITS) + _BEGIN + tensor.data_ptr() - storage.data_ptr()

    def touched(self, pointers: np.ndarray) -> Iterator[tuple[Region | None, np.ndarray, np.ndarray]]:
        """For each region that pointers point at: which do, and at which of its bytes, as the interpreter counts them.

        None: the region of addresses that were made of something else than an argument.
        """
        numbers = pointers >> np.uint64(_RANGE_BITS)
        for number in np.unique(numbers):
            region = self.regions[number - 1] if 0 < number <= len(self.regions) else None
            begin = (int(number) << _RANGE_BITS) + _BEGIN if region else 0
            yield region, numbers == number, pointers.astype(np.int64) - begin

    def leave(self) -> None:
        """Round what was written to bfloat16 tensors into them."""
        for memory, wide, before in self._widened:
            written = wide.view(torch.int32) != before.view(torch.int32)
            memory[written] = wide[written].to(torch.bfloat16)
