"""Ratios of times at one point: to the fastest peer, and to a copy of the same bytes. Results are judged by them alone.

Milliseconds differ between machines of one kind and between days; ratios within a run do so less. From one run to the next
still vary: the clocks, which blocks run where, and where in memory the data lies. So a comparison is repeated within its run:
each of its rounds, six or more, has all contestants, in an order of its own, on data allocated anew. What a row stores as the
spread of a ratio is the standard deviation over those rounds, as a part of their mean. How far a ratio may fall between runs,
its slack, is three of them, and never less than a floor, since neither another day nor another machine is in any round.
"""

import statistics
from collections.abc import Mapping

from kernels.measure.results import point

YARDSTICKS = ("peer", "copy")
REACHED = 0.95
IN_DOUBT = (0.85, 1.05)
DEVIATIONS = 3
FLOOR = 0.10
"""The ratios of 120 rows of layer norm, measured three times on an H200 between 2026-11-20 and -22, moved by 0.055 at most,
but for one rung of atomics, by 0.117."""
FLOOR_WITHOUT_SPREAD = 0.15
"""The slack of a row from before spreads were stored: what was assumed of every row then."""


def ratio(row: dict, rows: list[dict], kind: str) -> float | None:
    """How many times as fast a row is as the fastest of a kind, "peer" or "copy", at its point; None where there is none."""
    here = point(row)
    times = [other["median_ms"] for other in rows if other["kind"] == kind and point(other) == here]
    return min(times) / row["median_ms"] if times else None


def reached(row: dict, rows: list[dict]) -> bool:
    """Whether a row is at least 0.95 times as fast as the best peer at its point, or as the copy of the same bytes."""
    ratios = [ratio(row, rows, kind) for kind in YARDSTICKS]
    return any(found is not None and found >= REACHED for found in ratios)


def in_doubt(medians: Mapping[str, float], kinds: Mapping[str, str]) -> bool:
    """Whether the better ratio of any variant is so near to what counts as reached that it must be timed more closely.

    Args:
        medians: milliseconds by contestant.
        kinds: "variant", "peer" or "copy", by contestant.
    """
    yardsticks = [min((medians[name] for name in medians if kinds[name] == kind), default=0) for kind in YARDSTICKS]
    low, high = IN_DOUBT
    return any(low <= max(yardsticks) / medians[name] <= high for name in medians if kinds[name] == "variant")


def deviation(times: list[float], others: list[float], calls: int) -> float | None:
    """The standard deviation of others / times over the rounds, as a part of the mean; None of fewer than three rounds.

    Args:
        times, others: milliseconds of two contestants in the order taken, `calls` of each in every round.
    """
    rounds = [
        statistics.median(others[i : i + calls]) / statistics.median(times[i : i + calls])
        for i in range(0, len(times), calls)
    ]
    return statistics.stdev(rounds) / statistics.mean(rounds) if len(rounds) >= 3 else None


def slack(*spreads: float | None) -> float:
    """The part of a ratio that it may fall by, from all spreads that bear on it, those of both runs; None is not known."""
    return max(FLOOR_WITHOUT_SPREAD if one is None else max(FLOOR, DEVIATIONS * one) for one in spreads)
