"""What has become slower than its stored results say.

Two ratios of each variant are held against the stored results of the GPU: how many times as fast as the best peer it is, and
what fraction of a copy of the same bytes it reaches. Each may fall by its slack, which kernels.measure.ratios says.
"""

from dataclasses import dataclass

from rich import box
from rich.table import Table

from kernels.measure.ratios import YARDSTICKS, ratio, slack
from kernels.measure.results import described, point

OF = {"peer": "of the best peer", "copy": "of the copy"}


@dataclass(frozen=True)
class Fall:
    """One ratio that fell.

    Args:
        contestant: "level/rung".
        operation, direction: where.
        case: where else: shape, dtype and params, as in "8192×32768 bfloat16 causal=True".
        kind: "peer" or "copy": the ratio is the time of the best of them over the contestant's.
        stored: the ratio in the results file.
        now: the ratio of this run; None where the contestant, or all that it is held against, was not timed.
        slack: the part of the stored ratio that it might have fallen by.
    """

    contestant: str
    operation: str
    direction: str
    case: str
    kind: str
    stored: float
    now: float | None
    slack: float


def falls(stored: list[dict], now: list[dict]) -> list[Fall]:
    """What fell by more than its slack, from rows as they stand in a results file.

    The best peer is taken among those that both runs timed: a peer that is not installed here makes no one faster. A
    variant that is stored and was not timed has fallen; one that is timed and not stored cannot fall.
    """
    found = []
    before, after = _by_point(stored), _by_point(now)
    for where, rows in before.items():
        timed = after.get(where, {})
        for row in (row for row in rows.values() if row["kind"] == "variant"):
            found += [fall for kind in YARDSTICKS if (fall := _fall(kind, row, rows, timed))]
    return found


def table(found: list[Fall]) -> Table:
    """A line for each fall."""
    shown = Table(title="fallen by more than the slack", box=box.SIMPLE_HEAD)
    for heading in ("contestant", "operation", "direction", "case", "speed"):
        shown.add_column(heading)
    for heading in ("stored", "now", "slack"):
        shown.add_column(heading, justify="right")
    for fall in found:
        now = "not timed" if fall.now is None else f"{fall.now:.2f}"
        cells = (fall.contestant, fall.operation, fall.direction, fall.case, OF[fall.kind])
        shown.add_row(*cells, f"{fall.stored:.2f}", now, f"{fall.slack:.0%}")
    return shown


def _fall(kind: str, row: dict, rows: dict[str, dict], timed: dict[str, dict]) -> Fall | None:
    """How one ratio of a stored row fell, if it did. `rows` and `timed` are of its point, by contestant."""
    both = [other for other in rows.values() if other["contestant"] in timed]
    again = timed.get(row["contestant"])
    now = again and ratio(again, [timed[other["contestant"]] for other in both], kind)
    before = ratio(row, both if now else list(rows.values()), kind)
    if before is None:
        return None
    allowed = slack(*(one.get(f"{kind}_spread") for one in (row, again) if one))
    if now is not None and now >= before * (1 - allowed):
        return None
    where = {name: row[name] for name in ("contestant", "operation", "direction")}
    return Fall(**where, case=described(row), kind=kind, stored=before, now=now, slack=allowed)


def _by_point(rows: list[dict]) -> dict[str, dict[str, dict]]:
    """The rows by their point and, within it, by contestant."""
    found: dict[str, dict[str, dict]] = {}
    for row in rows:
        found.setdefault(point(row), {})[row["contestant"]] = row
    return found
