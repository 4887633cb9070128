"""Two or more ways to do the same thing, timed against each other: for chapters, outside any operation's record."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from rich import box
from rich.table import Table

from kernels.claims import Number
from kernels.figures import Picture
from kernels.machine import here
from kernels.measure.timing import Spread, spread, time_together


@dataclass(frozen=True)
class Race:
    """Times by contestant, on one device. Shows itself as a table, with `note` below it."""

    device: str
    times: dict[str, Spread]
    note: str = ""

    def ratio(self, slow: str, fast: str) -> Number:
        """How many times as long `slow` takes as `fast`; from the fast end of one's spread over the slow end of the other's."""
        a, b = self.times[slow], self.times[fast]
        return Number(a.median_ms / b.median_ms, a.p20_ms / b.p80_ms, a.p80_ms / b.p20_ms, "×")

    def plot(self) -> Picture:
        """The times as bars, the first contestant on top."""
        import plotly.graph_objects as go

        names = list(self.times)
        medians = [time.median_ms for time in self.times.values()]
        over = [time.p80_ms - time.median_ms for time in self.times.values()]
        under = [time.median_ms - time.p20_ms for time in self.times.values()]
        spreads = {"type": "data", "array": over, "arrayminus": under}
        layout = {"xaxis": {"title": "ms", "rangemode": "tozero"}, "yaxis": {"autorange": "reversed"}}
        said = ", ".join(f"{name} {median:.3g} ms" for name, median in zip(names, medians, strict=True))
        figure = go.Figure(go.Bar(x=medians, y=names, error_x=spreads, orientation="h"), layout)
        return Picture(figure, f"Time of one execution on {here(self.device).gpu or 'a CPU'}: {said}.")

    def __rich__(self) -> Table:
        title = f"time of one execution, {here(self.device).gpu or 'CPU'}"
        table = Table(title=title, caption=self.note or None, box=box.SIMPLE_HEAD)
        table.add_column("contestant")
        table.add_column("median ms", justify="right")
        table.add_column("20–80 %", justify="right")
        for name, time in self.times.items():
            table.add_row(name, f"{time.median_ms:.4g}", f"{time.p20_ms:.4g}–{time.p80_ms:.4g}")
        return table

    def _repr_mimebundle_(self, **kwargs: object) -> dict:
        return self.__rich__()._repr_mimebundle_(include=(), exclude=())


def race(contestants: Mapping[str, Callable[[], Any]], device: str | None = None, rounds: int = 6) -> Race:
    """Time functions without arguments, in turns; `rounds` rounds of 5 calls each.

    Args:
        contestants: by name. All must return the same values, within float32's usual tolerance.
        device: "cpu", "cuda", or None for the GPU where there is one.

    Raises:
        ArithmeticError: the results differ; then no time is given.
    """
    if len(contestants) < 2 or rounds < 1:
        raise ValueError(f"contestants: got {len(contestants)} in {rounds} rounds, expected at least 2 in at least 1")
    device = here(device).device
    calls = {name: lambda data, fn=fn: fn() for name, fn in contestants.items()}
    times, outputs, _ = time_together(calls, lambda seed: {}, device, rounds)
    agree(outputs)
    return Race(device, {name: spread(taken) for name, taken in times.items()})


def agree(outputs: dict[str, Any]) -> None:
    """ArithmeticError where an output, a tensor or several, differs from the first one's; float32's usual tolerance."""
    first, *others = outputs
    for other in others:
        try:
            torch.testing.assert_close(outputs[other], outputs[first], equal_nan=True)
        except AssertionError as error:
            raise ArithmeticError(f"{other} and {first} give different results: {error}") from None
