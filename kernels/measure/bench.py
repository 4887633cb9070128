"""What `python -m kernels bench` times: each comparison is stored as soon as it is timed, and no stored one is timed again."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from kernels.measure.ceilings import ceilings
from kernels.measure.compare import Comparison, compare
from kernels.measure.contestants import DIRECTIONS
from kernels.measure.results import Results, facts, load, path_of, point, where
from kernels.operation import Case, Operation, Variant


class Point(NamedTuple):
    """One comparison of a bench: of these variants, or of those that `compare` takes by default."""

    op: Operation
    case: Case
    direction: str
    variants: tuple[Variant, ...] | None = None

    def __str__(self) -> str:
        return f"{self.op.name} {self.direction} {self.case}"

    @property
    def key(self) -> str:
        """As `kernels.measure.results.point` gives it for the rows of this comparison."""
        return point(where(self.op.name, self.case, self.direction))


def points(ops: Sequence[Operation], device: str, quick: bool = False) -> list[Point]:
    """What is timed: the bench cases on a GPU, the model cases on a CPU, the first alone if quick; in every direction."""
    found = []
    for op in ops:
        cases = op.cases["bench" if device == "cuda" else "model"]
        directions = DIRECTIONS if op.backward_cost else DIRECTIONS[:1]
        found += [Point(op, case, direction) for case in cases[: 1 if quick else None] for direction in directions]
    return found


@dataclass
class Bench:
    """Going through it times the points, and gives a Comparison for each that is timed.

    Args:
        points: in this order.
        device: "cpu" or "cuda".
        minutes: none is begun that would end after so many, were it to take as long as the longest so far.
        folder: of results, in which those of this machine and commit are gone on with; None stores nothing.
        fresh: stored results are not gone on with but replaced, each file when its first point is timed.
        seed: that the points were drawn from, if they were: they are stored by themselves, and gone on with from one seed.

    Attributes:
        left: points that there was no time for.
        results: by operation, what was timed now and before.
    """

    points: Sequence[Point]
    device: str
    minutes: float
    folder: Path | None = None
    fresh: bool = False
    seed: int | None = None
    left: list[Point] = field(default_factory=list)
    results: dict[str, Results] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Comparison]:
        began, longest = time.monotonic(), 0.0
        for at in self.points:
            if at.op.name not in self.results:
                self.results[at.op.name] = self._begun(at.op.name)
            results = self.results[at.op.name]
            if at.key in map(point, results.rows):
                continue
            start = time.monotonic()
            if self.left or start - began + longest > 60 * self.minutes:
                self.left.append(at)
                continue
            comparison = compare(at.op, at.case, at.variants, self.device, at.direction, results.ceilings)
            results.put(comparison.as_data())
            if self.folder:
                results.save(self.path(at.op.name))
            longest = max(longest, time.monotonic() - start)
            yield comparison

    @cached_property
    def machine(self) -> dict:
        """The facts of the machine, where results are stored."""
        return (facts() | ({} if self.seed is None else {"seed": self.seed})) if self.folder else {}

    def path(self, operation: str) -> Path:
        """The results file of an operation."""
        return path_of(operation, self.machine["gpu"], self.folder, "operations" if self.seed is None else "drawn")

    @cached_property
    def _ceilings(self) -> dict:
        return ceilings(self.device)

    def _begun(self, operation: str) -> Results:
        if self.folder and not self.fresh and self.path(operation).exists():
            before = load(self.path(operation))
            if before.machine | {"date": None} == self.machine | {"date": None}:
                return before
        return Results(self.machine, self._ceilings, [])
