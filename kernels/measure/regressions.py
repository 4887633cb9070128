"""What has become slower than its stored results say.

Milliseconds differ between machines of one kind and between days; ratios within a run do so less. So what is held against
the stored results of the GPU are two ratios of each variant: how many times as fast as the best peer it is, and what
fraction of a copy of the same bytes it reaches. Each may fall by the results' slack.
"""

from dataclasses import dataclass

from rich import box
from rich.table import Table

from kernels.measure.results import SLACK

WHERE = ("operation", "direction", "shape", "dtype")


@dataclass(frozen=True)
class Fall:
    """One ratio that fell.

    Args:
        contestant: "level/rung".
        operation, direction, shape, dtype: where.
        ratio: "of the best peer" or "of the copy": their time over the contestant's.
        stored: the ratio in the results file.
        now: the ratio of this run; None where the contestant, or all that it is held against, was not timed.
    """

    contestant: str
    operation: str
    direction: str
    shape: tuple[int, ...]
    dtype: str
    ratio: str
    stored: float
    now: float | None


def falls(stored: list[dict], now: list[dict]) -> list[Fall]:
    """What fell by more than the slack, from rows as they stand in a results file.

    The best peer is taken among those that both runs timed: a peer that is not installed here makes no one faster. A
    variant that is stored and was not timed has fallen; one that is timed and not stored cannot fall.
    """
    found = []
    for row in stored:
        if row["kind"] != "variant":
            continue
        before, after = _together(row, stored), _together(row, now)
        for kind, ratio in (("peer", "of the best peer"), ("copy", "of the copy")):
            against = [name for name, other in before.items() if other["kind"] == kind]
            if not against:
                continue
            common = [name for name in against if name in after]
            timed = bool(common) and row["contestant"] in after
            stored_ratio = _ratio(row["contestant"], common if timed else against, before)
            now_ratio = _ratio(row["contestant"], common, after) if timed else None
            if now_ratio is None or now_ratio < stored_ratio * (1 - SLACK):
                where = {name: row[name] for name in WHERE} | {"shape": tuple(row["shape"])}
                found.append(Fall(row["contestant"], **where, ratio=ratio, stored=stored_ratio, now=now_ratio))
    return found


def table(found: list[Fall]) -> Table:
    """A line for each fall."""
    shown = Table(title=f"fallen by more than {SLACK:.0%} of the stored ratio", box=box.SIMPLE_HEAD)
    for heading in ("contestant", "operation", "direction", "shape", "speed"):
        shown.add_column(heading)
    for heading in ("stored", "now"):
        shown.add_column(heading, justify="right")
    for fall in found:
        shape = f"{'×'.join(map(str, fall.shape))} {fall.dtype}"
        now = "not timed" if fall.now is None else f"{fall.now:.2f}"
        shown.add_row(fall.contestant, fall.operation, fall.direction, shape, fall.ratio, f"{fall.stored:.2f}", now)
    return shown


def _together(row: dict, rows: list[dict]) -> dict[str, dict]:
    """The rows of the same operation, direction, shape and dtype, by contestant."""
    return {other["contestant"]: other for other in rows if all(other[name] == row[name] for name in WHERE)}


def _ratio(contestant: str, against: list[str], rows: dict[str, dict]) -> float:
    """The time of the fastest of `against` over the contestant's."""
    return min(rows[name]["median_ms"] for name in against) / rows[contestant]["median_ms"]
