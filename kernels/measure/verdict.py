"""Does this machine contradict a claim about speed?

Where a time means something differs between machines, and a verdict's line must not: notebooks store it. So the line says
only that nothing here contradicts the claim. What is judged:

- On a CPU, and for anything that has no stored row: claims of 3× and more, since less is within the noise of small machines.
- On a GPU with a results file of the operation: the ratio of the two times of this run, against the ratio of the stored ones
  within its slack, which kernels.measure.ratios says.
- On a GPU without one: nothing but correctness, which the comparison has checked already.
"""

from kernels.measure.compare import Comparison
from kernels.measure.race import Race
from kernels.measure.ratios import slack
from kernels.measure.results import Results, point, stored

JUDGED_EVERYWHERE = 3.0


class Contradicted(AssertionError):
    """A measurement contradicts a claim."""


def verdict(
    measured: Comparison | Race, contestant: str, than: str, at_least: float, results: Results | None = None
) -> None:
    """Print one constant line, or raise Contradicted: `contestant` is at least `at_least` times as fast as `than`.

    Args:
        measured: what was timed on this machine.
        contestant, than: names in it.
        at_least: the claimed ratio of their times.
        results: stored results to hold the ratio against; by default those of the operation on the GPU here.
    """
    missing = [name for name in (contestant, than) if name not in measured.times]
    if missing:
        raise KeyError(f"{', '.join(missing)}: not timed here; timed were {', '.join(measured.times)}")
    if contestant == than:
        raise ValueError(f"than: got {than!r}, the contestant itself")
    if not at_least > 1:
        raise ValueError(f"at_least: got {at_least!r}, expected a number above 1")
    if isinstance(measured, Race) and at_least < JUDGED_EVERYWHERE:
        raise ValueError(
            f"at_least: got {at_least!r}, but a race has no stored results: claim {JUDGED_EVERYWHERE:g} or more"
        )
    ratio = measured.times[than].median_ms / measured.times[contestant].median_ms
    bound, why = _bound(measured, contestant, than, at_least, results)
    if bound is not None and ratio < bound:
        raise Contradicted(f"{contestant} was {ratio:.2f}× as fast as {than} here, not {bound:.2f}× ({why})")
    print(f"not contradicted here: {contestant} at least {at_least:g}× as fast as {than}")


def _bound(
    measured: Comparison | Race, contestant: str, than: str, at_least: float, results: Results | None
) -> tuple[float | None, str]:
    """The smallest ratio that does not contradict the claim, or None where this machine cannot judge it."""
    if measured.device == "cuda" and isinstance(measured, Comparison):
        now = {row["contestant"]: row for row in measured.as_data()}
        results = results or stored(now[contestant]["operation"])
        if results is None:
            return None, ""
        here = point(now[contestant])
        there = {row["contestant"]: row for row in results.rows if point(row) == here}
        if contestant in there and than in there:
            stored_ratio = there[than]["median_ms"] / there[contestant]["median_ms"]
            # Each was compared with the copy in every round; the ratio between them spreads about as much as either.
            allowed = slack(*(rows[name].get("copy_spread") for rows in (there, now) for name in (contestant, than)))
            return max(stored_ratio, at_least) * (1 - allowed), f"stored {stored_ratio:.2f}×, within {allowed:.0%}"
    if at_least >= JUDGED_EVERYWHERE:
        return at_least, "as claimed"
    return None, ""
