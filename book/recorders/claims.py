"""Runs the experiments of claims, each whose numbers are not yet stored for this machine and commit:

    python -m book.recorders.claims FOLDER [CLAIM…]     write FOLDER/<gpu>.json, or FOLDER/cpu.json

The file holds `machine` and `rows`: {"claim", "name", "median", "low", "high", "unit"}. It is written after each claim, so an
interrupted run goes on; claims that are named are run again. An experiment that fails, or takes longer than SECONDS, is
reported, and its claim left out.
"""

import json
import sys
from pathlib import Path

import torch

from book.recorders.limits import within
from kernels.claims import Claim
from kernels.measure.results import commit, facts, file_name, write
from kernels.systems import claims

SECONDS = 120


def measure(claim: Claim, device: str) -> list[dict]:
    assert claim.experiment is not None
    return [{"claim": claim.name, "name": name} | number._asdict() for name, number in claim.experiment(device).items()]


def run(folder: Path, names: list[str]) -> int:
    """How many experiments failed."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    machine = facts() if device == "cuda" else {"gpu": None, "commit": commit()}
    path = folder / (file_name(machine["gpu"]) if device == "cuda" else "cpu.json")
    before = json.loads(path.read_text()) if path.exists() else {"machine": {}, "rows": []}
    same = before["machine"].get("commit") == machine["commit"] is not None
    rows = [row for row in before["rows"] if (same or names) and row["claim"] not in names]
    done, failed = {row["claim"] for row in rows}, 0
    for claim in claims():
        if claim.experiment is None or device not in claim.devices or claim.name in done:
            continue
        if names and claim.name not in names:
            continue
        try:
            with within(SECONDS):
                rows += measure(claim, device)
        except Exception as error:  # the others are to be measured all the same
            print(f"{claim.name}: {type(error).__name__}: {error}", file=sys.stderr)
            failed += 1
        write(path, {"machine": machine}, "rows", rows)
        print(claim.name, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(min(run(Path(sys.argv[1]), sys.argv[2:]), 1))
