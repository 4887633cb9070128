"""The results files, book/results/operations/<operation>/<gpu>.json: what was measured on a GPU, as plain data.

A row says what it is a time of: its contestant, and its *point*, which is operation, direction, shape, dtype, layout, params
and sizes. Rows of one point are held against each other, and no others are. In a file, what has its default is left out.
"""

import datetime
import importlib.metadata
import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from kernels.case import Case

FOLDER = Path(__file__).parents[2] / "book" / "results"
POINT = ("operation", "direction", "shape", "dtype", "layout", "params", "sizes")
DEFAULTS = {"layout": "contiguous", "params": {}, "sizes": {}}
PACKAGES = ("torch", "triton", "cupy-cuda13x", "numpy", "liger-kernel", "quack-kernels")


def where(operation: str, case: Case, direction: str) -> dict:
    """The fields of the point at which an operation is timed on a case."""
    return {
        "operation": operation,
        "direction": direction,
        "shape": case.shape,
        "dtype": case.dtype,
        "layout": case.layout,
        "params": dict(case.params),
        "sizes": dict(case.sizes),
    }


def point(row: dict) -> str:
    """The point of a row as one hashable value, equal for rows that may be held against each other."""
    return json.dumps([(DEFAULTS | row)[name] for name in POINT], sort_keys=True)


def described(row: dict) -> str:
    """A row's point without operation and direction: "32768×4096 bfloat16 causal=True"."""
    return " ".join(["×".join(map(str, row["shape"])), row["dtype"], *unusual(row)])


def unusual(row: dict) -> list[str]:
    """What of a row's point is not as usual: a layout with gaps, params and sizes, as "name=value"."""
    row = DEFAULTS | row
    layout = [] if row["layout"] == DEFAULTS["layout"] else [row["layout"]]
    return layout + [f"{name}={value}" for name, value in (row["sizes"] | row["params"]).items()]


@dataclass(frozen=True)
class Results:
    """One results file: one operation on one GPU.

    Args:
        machine: gpu, driver, versions, date, commit.
        ceilings: copy_gbps, matmul_tflops and what they were taken on.
        rows: as kernels.measure.compare.Row describes them; defaults are filled in.
    """

    machine: dict
    ceilings: dict
    rows: list[dict]

    def __post_init__(self) -> None:
        self.rows[:] = [DEFAULTS | row for row in self.rows]

    def find(self, **fields: object) -> dict | None:
        """The one row with these fields, such as contestant="triton/row", shape=[8192, 32768]; None where there is none.

        Raises:
            LookupError: several rows have them, such as causal attention and full attention of one shape.
        """
        fits = [row for row in self.rows if all(row[name] == value for name, value in fields.items())]
        if len(fits) > 1:
            raise LookupError(f"{fields} fits {len(fits)} rows; name a field in which they differ, such as params")
        return fits[0] if fits else None

    def put(self, rows: list[dict]) -> None:
        """Take in the rows of a comparison, in place of all that there are at its point."""
        points = {point(row) for row in rows}
        self.rows[:] = [row for row in self.rows if point(row) not in points] + [DEFAULTS | row for row in rows]

    def save(self, path: Path) -> None:
        """Write the file; what a row does not have (a null), or has by default, is left out, except the level."""
        rows = [{k: _rounded(v) for k, v in row.items() if k == "level" or _said(k, v)} for row in self.rows]
        data = {"machine": self.machine, "ceilings": {k: _rounded(v) for k, v in self.ceilings.items()}}
        write(path, data, "rows", rows)


def write(path: Path, head: dict, name: str, rows: Iterable[dict]) -> None:
    """A file of results: what is in `head`, and under `name` the rows, a line for each. Whole or not at all."""
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    begin = json.dumps(head, indent=1).removesuffix("\n}")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(f'{begin},\n "{name}": [\n{lines}\n ]\n}}\n')
    os.replace(unfinished, path)


def _said(name: str, value: object) -> bool:
    return value is not None and not (name in DEFAULTS and value == DEFAULTS[name])


def _rounded(value: object) -> object:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def file_name(gpu: str) -> str:
    """The results file of a GPU: "NVIDIA H200" → "h200.json"."""
    return gpu.removeprefix("NVIDIA ").lower().replace(" ", "-") + ".json"


def path_of(operation: str, gpu: str, folder: Path = FOLDER, family: str = "operations") -> Path:
    """Where the results of an operation on a GPU lie below a folder of results; family: or "drawn"."""
    return folder / family / operation / file_name(gpu)


def load(path: Path) -> Results:
    """One results file."""
    return Results(**json.loads(path.read_text("utf-8")))


def stored(operation: str, gpu: str | None = None) -> Results | None:
    """The committed results of an operation on a GPU by its name, or on the one here; None where there are none."""
    if gpu is None:
        if not torch.cuda.is_available():
            return None
        gpu = torch.cuda.get_device_name()
    path = path_of(operation, gpu)
    return load(path) if path.exists() else None


def facts() -> dict:
    """The machine as a results file records it."""
    return {
        "gpu": torch.cuda.get_device_name(),
        "multiprocessors": torch.cuda.get_device_properties().multi_processor_count,
        "driver": _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "versions": {"cuda": torch.version.cuda} | dict(_versions(PACKAGES)),
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
    }


def commit() -> str | None:
    """What KERNELS_COMMIT says, or git; None where neither knows, or where the package has changes that are in no commit."""
    if given := os.environ.get("KERNELS_COMMIT"):
        return given
    changed = _output("git", "status", "--porcelain", "--", "kernels")
    return None if changed else _output("git", "rev-parse", "HEAD")


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
