"""One memory instruction of a warp, lane by lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """One memory instruction of a warp, lane by lane.

    block, warp: that made it; warps are counted within their block.
    array: the parameter or variable that its first lane touched, with the bytes of an element, and `origin`, where
    element 0 begins.
    lanes: the active ones, ascending. offsets: the first byte that each of them named. Offsets and `origin` are in bytes,
    from a boundary of sectors (global and constant memory) or of bank 0 (shared memory).
    """

    block: tuple[int, int, int]
    warp: int
    array: str
    element: int
    origin: int
    lanes: tuple[int, ...]
    offsets: tuple[int, ...]

    @property
    def indices(self) -> tuple[int, ...]:
        """The element of the array that each lane named."""
        return tuple(self.index(offset) for offset in self.offsets)

    def index(self, offset: int) -> int:
        """The element of the array that holds a byte."""
        return (offset - self.origin) // self.element

    @classmethod
    def from_dict(cls, data: dict) -> Request:
        """From what `dataclasses.asdict` made of one, after JSON."""
        return cls(**data | {name: tuple(data[name]) for name in ("block", "lanes", "offsets")})


def first_of(requests: Sequence[Sequence[Request]], most: int = 8) -> tuple[Request, ...]:
    """Of the first requests of several instructions, each in order, those of the first warps, in turns."""
    turns: dict[tuple, int] = {}
    ordered = []
    for number, one in enumerate(requests):
        turns.clear()
        for request in one:
            who = (*request.block[::-1], request.warp)
            turns[who] = turn = turns.get(who, 0) + 1
            ordered.append(((*who, turn, number), request))
    return tuple(request for _, request in sorted(ordered, key=lambda one: one[0])[:most])
