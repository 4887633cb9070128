"""Every system at work on this machine's GPU, or on its CPU where there is none: its check, then its demo.

    python -m book.recorders.systems FOLDER [SYSTEM…]     write FOLDER/<gpu>.json, or FOLDER/cpu.json

The file holds `machine` and `rows`: {"system", "failure", "shown", "proved", "measured", "seconds"}; failure is null where the
check passed. It is written after each system: an interrupted run of the same commit goes on, and systems that are named run
again. What takes longer than SECONDS is a failure.
"""

import json
import sys
import time
from pathlib import Path

import torch

from book.recorders.limits import within
from kernels.measure.results import commit, facts, file_name, write
from kernels.systems import system, systems

SECONDS = 90


def at_work(name: str, device: str) -> dict:
    """The row of one system."""
    began, record = time.perf_counter(), system(name)
    try:
        with within(SECONDS):
            _, failure = record.check(record.make, device)
            shown = record.demo(device, False)
            row = {"failure": failure, "shown": shown.shown, "proved": shown.proved, "measured": shown.measured}
    except Exception as error:  # the others are to be seen all the same
        row = {"failure": f"{type(error).__name__}: {error}", "shown": None, "proved": None, "measured": None}
    return {"system": name} | row | {"seconds": round(time.perf_counter() - began, 1)}


def run(folder: Path, names: list[str]) -> int:
    """How many systems failed."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    machine = facts() if device == "cuda" else {"gpu": None, "commit": commit()}
    path = folder / (file_name(machine["gpu"]) if device == "cuda" else "cpu.json")
    before = json.loads(path.read_text()) if path.exists() else {"machine": {}, "rows": []}
    same = before["machine"].get("commit") == machine["commit"] is not None
    rows = [row for row in before["rows"] if (same or names) and row["system"] not in names]
    for name in names or systems():
        if name not in {row["system"] for row in rows}:
            rows.append(at_work(name, device))
            print(json.dumps(rows[-1]), flush=True)
            write(path, {"machine": machine}, "rows", rows)
    return sum(row["failure"] is not None for row in rows)


if __name__ == "__main__":
    sys.exit(min(run(Path(sys.argv[1]), sys.argv[2:]), 1))
