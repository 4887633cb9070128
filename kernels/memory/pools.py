"""A caching allocator, simulated: what a pool reserves for a sequence of allocations and frees, and how much of it lies idle.

Its rules are those of PyTorch's allocator for CUDA (c10/cuda/CUDACachingAllocator.cpp): sizes are rounded up to 512 bytes;
requests up to 1 MiB share segments of 2 MiB, those below 10 MiB segments of 20 MiB, and larger ones get segments of their own,
rounded to 2 MiB; the smallest free block that fits is taken and split; what is freed is merged with its free neighbours and
kept. With `expandable` segments, each of the two kinds is one segment that grows by whole pages.
"""

import bisect
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

UNIT = 512
SMALL, SMALL_SEGMENT = 1 << 20, 2 << 20
MIDDLE, MIDDLE_SEGMENT, ROUND = 10 << 20, 20 << 20, 2 << 20


class Event(NamedTuple):
    """An allocation of so many bytes, or with None the free, of what goes by a number of its own."""

    tensor: int
    bytes: int | None


@dataclass(order=True)
class Block:
    """Bytes that lie together in a segment: free, or one allocation."""

    segment: int
    start: int
    size: int
    free: bool = field(default=True, compare=False)


@dataclass
class Pool:
    """The simulated allocator. `reserved` is what the GPU gave, `allocated` what is in use; both in bytes, and at their peaks.

    Args:
        expandable: whether segments grow.

    Raises, in `replay`:
        ValueError: bytes below 1, a number that is in use already, or a free of one that is not.
    """

    expandable: bool = False
    reserved: int = 0
    allocated: int = 0
    peak_reserved: int = 0
    peak_allocated: int = 0
    blocks: dict[bool, list[Block]] = field(default_factory=lambda: {True: [], False: []})  # by whether they are small
    held: dict[int, tuple[Block, bool]] = field(default_factory=dict)

    def replay(self, trace: Iterable[Event]) -> "Pool":
        for event in trace:
            if event.bytes is None:
                self.free(event.tensor)
            else:
                self.allocate(event.tensor, event.bytes)
        return self

    @property
    def idle(self) -> float:
        """The part of the reserved bytes at their peak that no allocation ever used at one time."""
        return 1 - self.peak_allocated / self.peak_reserved if self.peak_reserved else 0.0

    def allocate(self, tensor: int, size: int) -> None:
        if size < 1:
            raise ValueError(f"bytes: got {size} for {tensor}, expected at least 1")
        if tensor in self.held:
            raise ValueError(f"tensor: {tensor} is allocated already; free it first")
        size = -(-size // UNIT) * UNIT
        small = size <= SMALL
        blocks = self.blocks[small]
        fitting = [block for block in blocks if block.free and block.size >= size]
        if not fitting:
            fitting = [self._grown(size, small)]
        block = min(fitting, key=lambda one: (one.size, one.segment, one.start))
        rest = block.size - size
        if rest >= UNIT if small or self.expandable else rest > SMALL:
            bisect.insort(blocks, Block(block.segment, block.start + size, rest))
            block.size = size
        block.free = False
        self.held[tensor] = block, small
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)

    def free(self, tensor: int) -> None:
        if tensor not in self.held:
            raise ValueError(f"tensor: {tensor} is freed, and was not allocated")
        block, small = self.held.pop(tensor)
        self.allocated -= block.size
        block.free = True
        self._merge(block, self.blocks[small])

    def _grown(self, size: int, small: bool) -> Block:
        """A free block with room for `size`, of a new segment or at the end of the one that expands."""
        blocks = self.blocks[small]
        if not self.expandable:
            whole = SMALL_SEGMENT if small else MIDDLE_SEGMENT if size < MIDDLE else -(-size // ROUND) * ROUND
            segment = 1 + max((block.segment for both in self.blocks.values() for block in both), default=-1)
            new = Block(segment, 0, whole)
        else:
            page = SMALL_SEGMENT if small else MIDDLE_SEGMENT
            last = blocks[-1] if blocks else Block(int(small), 0, 0, free=False)
            missing = size - (last.size if last.free else 0)
            whole = -(-missing // page) * page
            new = Block(last.segment, last.start + last.size, whole)
        self.reserved += whole
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        bisect.insort(blocks, new)
        return self._merge(new, blocks)

    def _merge(self, block: Block, blocks: list[Block]) -> Block:
        place = bisect.bisect_left(blocks, block)
        for left in (place, place - 1):
            pair = blocks[max(left, 0) : left + 2]
            if len(pair) == 2 and pair[0].free and pair[1].free and pair[0].segment == pair[1].segment:
                pair[0].size += pair[1].size
                del blocks[left + 1]
                block = pair[0]
        return block


def record(fn: Callable[..., Any], *args: Any) -> list[Event]:
    """The allocations and frees of a call, in order: a storage is an allocation, also on a CPU or on device "meta".

    What the operators take for themselves while they run is not seen.
    """
    recorder = _Recorder()
    with recorder:
        result = fn(*args)
    del result
    return recorder.trace


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.trace: list[Event] = []
        self.known: dict[int, weakref.ref] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {one.untyped_storage()._cdata for one in args if isinstance(one, torch.Tensor)}
        result = func(*args, **(kwargs or {}))
        for one in result if isinstance(result, tuple | list) else (result,):
            if isinstance(one, torch.Tensor):
                self._see(one.untyped_storage(), given)
        return result

    def _see(self, storage: torch.UntypedStorage, given: set[int]) -> None:
        key, number = storage._cdata, len(self.trace)
        if storage.nbytes() and key not in given and key not in self.known:
            self.trace.append(Event(number, storage.nbytes()))
            self.known[key] = weakref.ref(storage, lambda _: self._freed(key, number))

    def _freed(self, key: int, number: int) -> None:
        del self.known[key]
        self.trace.append(Event(number, None))
