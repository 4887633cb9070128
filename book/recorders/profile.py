"""Profiles the calls of profile_calls.py with Nsight Compute. Recorded on a GPU:

    python -m book.recorders.profile FOLDER     write FOLDER/<gpu>.json

The file holds `machine` and `profiles`: see kernels/measure/recorded/profile.py.
"""

import csv
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from book.recorders.limits import finished
from book.recorders.profile_calls import MARK
from book.recorders.profile_metrics import SECTIONS, asked, numbers
from kernels.measure.results import facts, file_name, write

ENVIRONMENT = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
"""No compilers under the profiler."""
OPTIONS = "--clock-control none --profile-from-start off --csv --page raw --print-units base"


def rows(table: str) -> Iterator[dict[str, str]]:
    """The kernels in a raw table that Nsight Compute wrote, in order."""
    lines = table.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise SystemExit("Nsight Compute wrote no table: it cannot read the counters here. It said:\n" + table[-2000:])
    read = csv.DictReader(lines[start:])
    next(read)  # the units
    yield from read


def kernels_of_calls(table: str) -> list[list[dict]]:
    """For each call its kernels, as `numbers` has them, with names, grids and blocks."""
    calls: list[list[dict]] = []
    for row in rows(table):
        if MARK in row["Kernel Name"]:
            calls.append([])
        else:
            about = {
                "name": short(row["Kernel Name"]),
                "grid": sizes(row["Grid Size"]),
                "block": sizes(row["Block Size"]),
            }
            calls[-1].append(about | numbers(row))
    return calls


def short(name: str) -> str:
    """A kernel's name without its parameters and the namespaces that everything is in."""
    name = re.sub(r"^void |\(anonymous namespace\)::|<unnamed>::|at::native::|\(.*", "", name)
    return name if len(name) <= 60 else name[:59] + "…"


def sizes(text: str) -> list[int]:
    """ "(132, 1, 1)" as numbers."""
    return [int(number) for number in re.findall(r"\d+", text)]


def listed() -> list[str]:
    """The words of Nsight Compute's list of metrics, all their names among them."""
    return subprocess.run(["ncu", "--query-metrics"], capture_output=True, text=True).stdout.split()


def under_ncu(
    program: Sequence[str], table: Path, metrics: Iterable[str], sections: Iterable[str], seconds: float | None = None
) -> int:
    """Run a Python program under Nsight Compute, which writes a table; the exit status. A run that takes longer than so many
    seconds is ended, and what it had measured is lost."""
    options = itertools.chain(OPTIONS.split(), *(("--section", section) for section in sections))
    command = ["ncu", *options, "--metrics", ",".join(metrics), "--log-file", str(table), sys.executable, *program]
    return finished(subprocess.Popen(command, env=ENVIRONMENT, start_new_session=True), seconds)


def profile() -> list[dict]:
    """Every call with its kernels."""
    with tempfile.TemporaryDirectory() as folder:
        made, table = Path(folder) / "calls.json", Path(folder) / "table.csv"
        status = under_ncu(["-m", "book.recorders.profile_calls", str(made)], table, asked(listed()), SECTIONS)
        if status or not made.exists():
            said = table.read_text()[-2000:] if table.exists() else ""
            raise SystemExit(f"Nsight Compute stopped with {status}:\n{said}")
        fields, kernels = json.loads(made.read_text()), kernels_of_calls(table.read_text())
    return [call | {"kernels": call_kernels} for call, call_kernels in zip(fields, kernels, strict=True)]


def machine() -> dict:
    """The facts of the machine, with the version of Nsight Compute."""
    about = facts()
    lines = subprocess.run(["ncu", "--version"], capture_output=True, text=True).stdout.splitlines()
    about["versions"]["ncu"] = next((line.split()[1] for line in lines if line.startswith("Version")), None)
    return about


if __name__ == "__main__":
    about = machine()
    write(Path(sys.argv[1]) / file_name(about["gpu"]), {"machine": about}, "profiles", profile())
