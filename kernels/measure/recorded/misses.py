"""Why the goal is missed at timed points: what Nsight Compute says there of our kernel and of the fastest peer.

They are recorded by book/recorders/misses.py, in profiles of few numbers: `COLUMNS` of them, and each kernel's name. A profile
has its point and the median of the row that it explains: of a row that has been timed anew it says nothing.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from kernels.measure.ratios import reached
from kernels.measure.recorded.profile import WAITS, longest
from kernels.measure.results import DEFAULTS, FOLDER, POINT, point

COLUMNS = (
    "us",
    "dram_percent",
    "tensor_percent",
    "active_percent",
    "issue_percent",
    "registers",
    "stalls",
)
"""Of those that kernels.measure.recorded.profile explains."""
SHARES = {"dram_percent": "memory", "tensor_percent": "tensor cores"}
LONGEST_WAITS = 2
Profiles = dict[tuple, list[dict]]
"""The kernels of a call by the `key` of its row."""


def misses(rows: Iterable[dict]) -> list[tuple[dict, dict | None]]:
    """At each point the fastest of level 4 and of level 5, where it has not reached its goal, with the fastest peer."""
    points: dict[str, list[dict]] = {}
    for row in sorted(rows, key=lambda row: row["median_ms"]):
        points.setdefault(point(row), []).append(row)
    found = []
    for group in points.values():
        peer = next((row for row in group if row["kind"] == "peer"), None)
        for level in (4, 5):
            best = next((row for row in group if row["level"] == level), None)
            if best and not reached(best, group):
                found.append((best, peer))
    return found


def key(row: dict) -> tuple:
    """What a row and its profile have in common."""
    return point(row), row["contestant"], row["median_ms"]


def profile_of(row: dict, kernels: list[dict]) -> dict:
    """A row's profile, as it is stored."""
    fields = {name: row[name] for name in POINT if row[name] != DEFAULTS.get(name)}
    numbers = [{name: kernel[name] for name in ("name", *COLUMNS) if name in kernel} for kernel in kernels]
    return fields | {"contestant": row["contestant"], "median_ms": row["median_ms"], "kernels": numbers}


def path_of(gpu_file: str) -> Path:
    """The stored profiles of a GPU by the name of its results files, such as "h200"."""
    return FOLDER / "misses" / f"{gpu_file}.json"


def load(path: Path) -> Profiles:
    """The profiles in a file; none where there is no such file."""
    stored = json.loads(path.read_text("utf-8"))["profiles"] if path.exists() else []
    return {key(one): one["kernels"] for one in stored}


def why(ours: dict, peer: dict | None, profiles: Profiles) -> str | None:
    """Such as "memory at 62 %; waits for: global memory 8.1, barrier 2.0 (liger: 71 %, global memory 5.2)"; None where
    nothing is recorded of ours. The numbers are the shares of a rate, and cycles a warp waited for each instruction."""
    kernels = profiles.get(key(ours))
    if not kernels:
        return None
    kernel = longest(kernels)
    rate = max(SHARES, key=lambda column: kernel.get(column) or 0)
    share, waits = _percent(kernel, rate), _waits(kernel)
    said = [f"{SHARES[rate]} at {share}"] if share else []
    said += [f"waits for: {waits}"] if waits else []
    alone = "" if len(kernels) == 1 else f"longest of {len(kernels)} kernels: "
    return alone + "; ".join(said) + _beside(peer, rate, profiles)


def _beside(peer: dict | None, rate: str, profiles: Profiles) -> str:
    """The same of a peer's longest kernel, in brackets."""
    kernels = profiles.get(key(peer)) if peer else None
    if not peer or not kernels:
        return ""
    kernel = longest(kernels)
    said = ", ".join(filter(None, (_percent(kernel, rate), _waits(kernel))))
    many = "" if len(kernels) == 1 else f", {len(kernels)} kernels"
    return f" ({peer['contestant']}{many}: {said})"


def _percent(kernel: dict, rate: str) -> str:
    return f"{kernel[rate]:.0f} %" if rate in kernel else ""


def _waits(kernel: dict) -> str:
    """The longest first."""
    reasons = [one for one in kernel.get("stalls", {}).items() if one[0] in WAITS][:LONGEST_WAITS]
    return ", ".join(f"{WAITS[reason]} {cycles:.{0 if cycles >= 100 else 1}f}" for reason, cycles in reasons)
