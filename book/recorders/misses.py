"""Profiles our kernels with Nsight Compute where they miss their goal, beside the fastest peer there. Recorded on a GPU:

    python -m book.recorders.misses FOLDER [OPERATION…] [--minutes 8]     write FOLDER/<gpu>.json

The points are those of this GPU's results in book/results, the listed ones and the drawn ones. The file holds `machine`,
`left_out`, which says of some why there is no profile, and `profiles`: see kernels/measure/recorded/misses.py. It is written
after each process, and gone on with: what has a profile is profiled again only if its operation is named. Exits 3 if there
was no time for all.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from book.recorders.limits import finished
from book.recorders.profile import ENVIRONMENT, kernels_of_calls, listed, machine, under_ncu
from book.recorders.profile_metrics import asked
from kernels.measure.recorded import misses
from kernels.measure.results import FOLDER, described, file_name, load, write

SECTIONS = ("LaunchStats", "WarpStateStats")
JOBS = 8
"""Processes that compile at once."""
POINTS = 24
"""Of a process. One that ends early costs the call at which it did, and the start of another."""
START = 90
"""Seconds without which no process is begun: it imports torch and compiles, and its table is written."""
WRITING = 30
"""Seconds that Nsight Compute is given for its table after the last call."""


def wanted(gpu: str, folder: Path = FOLDER) -> list[dict]:
    """The points that are missed on a GPU: {"row": of ours, "seed": of what was drawn, "contestants": rows by name}."""
    found: dict[tuple, dict] = {}
    for family in ("operations", "drawn"):
        for path in sorted(folder.glob(f"{family}/*/{file_name(gpu)}")):
            results = load(path)
            for ours, peer in misses.misses(results.rows):
                at = {"row": ours, "seed": results.machine.get("seed"), "contestants": {}}
                at = found.setdefault((family, misses.point(ours)), at)
                at["contestants"] |= {row["contestant"]: row for row in (ours, peer) if row}
    return sorted(found.values(), key=lambda at: at["row"]["operation"])  # compiled kernels are found again


def named(row: dict) -> str:
    return f"{row['operation']} {row['direction']} {described(row)} {row['contestant']}"


def remaining(points: list[dict], done: Collection[tuple]) -> list[dict]:
    """The points without the contestants whose `misses.key` is among the done."""
    left = []
    for at in points:
        rows = {name: row for name, row in at["contestants"].items() if misses.key(row) not in done}
        left += [at | {"contestants": rows}] if rows else []
    return left


def program(points: list[dict], folder: Path, seconds: float) -> list[str]:
    """That makes the calls of these points, for so long, and says in folder/made.json what it has made."""
    given = folder / "points.json"
    given.write_text(json.dumps([at | {"contestants": list(at["contestants"])} for at in points]))
    return ["-m", "book.recorders.misses_calls", str(given), str(folder / "made.json"), str(time.time() + seconds)]


def compile_all(points: list[dict], seconds: float) -> None:
    """Fill the caches of the compilers: under the profiler, calls are made one at a time."""
    runs = []
    with contextlib.ExitStack() as stack:
        many = -(-len(points) // JOBS)  # one after the other: an operation's points share kernels
        for part in (points[first : first + many] for first in range(0, len(points), many)):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            command = [sys.executable, *program(part, folder, seconds), "compile"]
            runs.append(subprocess.Popen(command, env=ENVIRONMENT, start_new_session=True))
        ends = time.monotonic() + seconds + START
        for run in runs:
            finished(run, ends - time.monotonic())


def profile(points: list[dict], metrics: Sequence[str], seconds: float) -> tuple[dict, dict]:
    """One process: profiles by `misses.key`, and why there is none by the same. What it did not come to is in neither."""
    with tempfile.TemporaryDirectory() as folder:
        path, table = Path(folder) / "made.json", Path(folder) / "table.csv"
        status = under_ncu(program(points, Path(folder), seconds), table, metrics, SECTIONS, seconds + WRITING)
        made = json.loads(path.read_text()) if path.exists() else []
        kernels, lost = [], f"no kernel in the table of Nsight Compute, which stopped with {status}"
        if not made:  # it had no time, or Nsight Compute did not begin
            first = next(iter(points[0]["contestants"].values()))
            return {}, {misses.key(first): f"{named(first)}: {lost}"}
        if table.exists() and any(one["marked"] for one in made):
            try:
                kernels = kernels_of_calls(table.read_text())
            except SystemExit as error:  # there is no table
                lost = " ".join(str(error).split())[-300:]
    profiles, left_out, marked = {}, {}, 0
    for one in made:
        row = points[one["point"]]["contestants"][one["contestant"]]
        of = kernels[marked] if one["marked"] and marked < len(kernels) else []
        marked += one["marked"]
        if of and not one["failure"]:
            profiles[misses.key(row)] = misses.profile_of(row, of)
        else:
            left_out[misses.key(row)] = f"{named(row)}: {one['failure'] or lost}"
    return profiles, left_out


def before(path: Path, current: dict[tuple, dict]) -> tuple[dict, dict]:
    """What `profile` gave when the file was written."""
    stored = json.loads(path.read_text()) if path.exists() else {"profiles": [], "left_out": []}
    said = {line.split(": ")[0]: line for line in stored["left_out"]}
    left_out = {key: said[named(row)] for key, row in current.items() if named(row) in said}
    return {misses.key(one): one for one in stored["profiles"]}, left_out


def record(folder: Path, names: Sequence[str], minutes: float, results: Path = FOLDER) -> int:
    """How many contestants there was no time for."""
    until, about = time.monotonic() + 60 * minutes, machine()
    path, metrics = folder / file_name(about["gpu"]), asked(listed(), misses.COLUMNS)
    points = wanted(about["gpu"], results)
    current = {misses.key(row): row for at in points for row in at["contestants"].values()}
    profiles, left_out = before(path, current)
    tried: set[tuple] = set()
    to_do = [at for at in points if not names or at["row"]["operation"] in names]
    if not names:
        to_do = remaining(to_do, profiles.keys())
    if to_do:
        compile_all(to_do, min(until - time.monotonic(), 1e6) / 3)
    while to_do and until - time.monotonic() > START:
        seconds = min(until - time.monotonic() - WRITING, 1e6)  # inf is no number of seconds to wait for
        found, failed = profile(to_do[:POINTS], metrics, seconds)
        profiles, left_out = profiles | found, left_out | failed
        tried |= found.keys() | failed.keys()
        to_do = remaining(to_do, tried)
        in_order = [profiles[key] for key in current if key in profiles]
        why = [why for key, why in left_out.items() if key not in profiles]
        write(path, {"machine": about, "left_out": why}, "profiles", in_order)
        if not tried or (not profiles and len(tried) > 1):  # one may have ended its process; more have a common reason
            raise SystemExit("\n".join(["Nsight Compute measured nothing.", *why]))
    return sum(len(at["contestants"]) for at in to_do)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("operations", nargs="*")
    parser.add_argument("--minutes", type=float, default=8)
    given = parser.parse_args()
    left = record(given.folder, given.operations, given.minutes)
    print(f"{left} contestants are left." if left else "All are profiled.")
    sys.exit(3 if left else 0)
