"""The results files, book/results/<gpu>.json: what was measured on a GPU, as plain data for others to read."""

import datetime
import importlib.metadata
import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

FOLDER = Path(__file__).parents[2] / "book" / "results"
SLACK = 0.15
"""How far a ratio may fall below the stored one before a verdict says so: the spread between runs on one machine."""

PACKAGES = ("torch", "triton", "cupy-cuda13x", "numpy", "liger-kernel", "quack-kernels")


@dataclass(frozen=True)
class Results:
    """One results file.

    Args:
        machine: gpu, driver, versions, date, commit.
        ceilings: copy_gbps, matmul_tflops and what they were taken on.
        rows: as kernels.measure.compare.Row describes them.
    """

    machine: dict
    ceilings: dict
    rows: list[dict]

    def find(self, **fields: object) -> dict | None:
        """The row with these fields, such as operation="layer_norm", contestant="triton/row", shape=[8192, 32768]."""
        for row in self.rows:
            if all(row[name] == value for name, value in fields.items()):
                return row
        return None

    def save(self, path: Path) -> None:
        """Write the file; what a row does not have (a null) is left out, except the level."""
        rows = [{k: _rounded(v) for k, v in row.items() if v is not None or k == "level"} for row in self.rows]
        data = {"machine": self.machine, "ceilings": {k: _rounded(v) for k, v in self.ceilings.items()}}
        write(path, data, "rows", rows)


def write(path: Path, head: dict, name: str, rows: Iterable[dict]) -> None:
    """A file of results: what is in `head`, and under `name` the rows, a line for each."""
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    begin = json.dumps(head, indent=1).removesuffix("\n}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{begin},\n "{name}": [\n{lines}\n ]\n}}\n')


def _rounded(value: object) -> object:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def file_name(gpu: str) -> str:
    """The results file of a GPU: "NVIDIA H200" → "h200.json"."""
    return gpu.removeprefix("NVIDIA ").lower().replace(" ", "-") + ".json"


def stored(gpu: str | None = None) -> Results | None:
    """The committed results of a GPU by its name ("NVIDIA H200"), or of the one here; None where there are none."""
    if gpu is None:
        if not torch.cuda.is_available():
            return None
        gpu = torch.cuda.get_device_name()
    path = FOLDER / file_name(gpu)
    return Results(**json.loads(path.read_text())) if path.exists() else None


def facts() -> dict:
    """The machine as a results file records it."""
    return {
        "gpu": torch.cuda.get_device_name(),
        "multiprocessors": torch.cuda.get_device_properties().multi_processor_count,
        "driver": _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "versions": {"cuda": torch.version.cuda} | dict(_versions(PACKAGES)),
        "date": datetime.date.today().isoformat(),
        "commit": os.environ.get("KERNELS_COMMIT") or _output("git", "rev-parse", "HEAD"),
    }


def _versions(packages: Iterable[str]) -> Iterable[tuple[str, str]]:
    for package in packages:
        try:
            yield package, importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue


def _output(*command: str) -> str | None:
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=FOLDER.parents[1])
    except (OSError, subprocess.CalledProcessError):
        return None
    return run.stdout.strip()
