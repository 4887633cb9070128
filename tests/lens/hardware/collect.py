"""Reads the counters of every launch on a GPU with Nsight Compute, and stores them in hardware.json.

    cd tests/lens; M="python3 -m hardware.collect"
    ncu --clock-control none --profile-from-start off --csv --page raw --print-units base --log-file counters.csv \\
        --metrics $($M metrics) $M launch code.json
    $M store code.json counters.csv hardware/hardware.json
    $M judge hardware/hardware.json

`launch` runs every launch once on the GPU under the profiler, and once on the CPU, and stops with an error where the two
leave other results. `store` and `judge` can run elsewhere: the one needs nvdisasm; the other traces every launch, and
stores which cannot be compared, and why.
"""

from __future__ import annotations

import base64
import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from .counters import METRICS, sums
from .launch import Launch
from .launches import LAUNCHES, kernel
from .machine_code import disassemble, machine_code


def metrics() -> str:
    """The metrics to ask for: those of METRICS that this Nsight Compute has, as its --metrics takes them."""
    there = subprocess.run(["ncu", "--query-metrics", "--chip", "gh100"], capture_output=True, text=True).stdout.split()
    return ",".join(name for names in METRICS.values() for name in names if name.rsplit(".", 1)[0] in there)


def launch_all(into: Path) -> None:
    """Every launch on the GPU and on the CPU. Stores the kernels' cubins and the versions of everything."""
    os.environ["CUPY_CACHE_IN_MEMORY"] = "1"  # compile, so that there is something to see
    with _cubins() as compiled:
        for launch in LAUNCHES:
            function, args = kernel(launch), launch.arguments("cuda")
            function(launch.grid, launch.block, args, launch.shared_mem)  # compiles and loads
            args = launch.arguments("cuda")
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStart()
            function(launch.grid, launch.block, args, launch.shared_mem)
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaProfilerStop()
            _compare(launch, args)
    cubins = [{"cubin": base64.b64encode(cubin).decode(), "symbols": symbols} for cubin, symbols in compiled]
    texts = {launch.name: launch.digest for launch in LAUNCHES}
    into.write_text(json.dumps({"machine": _versions(), "texts": texts, "cubins": cubins}))


class _cubins:
    """Collects what CuPy compiles meanwhile: each cubin with the mangled names of its kernels."""

    def __enter__(self) -> list[tuple[bytes, dict[str, str]]]:
        from cupy.cuda import compiler

        seen: list[tuple[bytes, dict[str, str]]] = []
        self._program, self._compile = compiler._NVRTCProgram, compiler._NVRTCProgram.compile

        def compile(program: Any, *args: Any, **kwargs: Any) -> tuple[bytes, dict[str, str]]:
            code, names = self._compile(program, *args, **kwargs)
            if names:
                seen.append((code, {k: v.decode() if isinstance(v, bytes) else v for k, v in names.items()}))
            return code, names

        self._program.compile = compile
        return seen

    def __exit__(self, *_: object) -> None:
        self._program.compile = self._compile


def _compare(launch: Launch, after: tuple) -> None:
    """The GPU's results against the CPU's."""
    args = launch.arguments("cpu")
    kernel(launch)(launch.grid, launch.block, args, launch.shared_mem)
    for index, (there, here) in enumerate(zip(after, args, strict=True)):
        if isinstance(here, torch.Tensor):
            torch.testing.assert_close(
                there.cpu(),
                here,
                rtol=1e-3,
                atol=1e-4,
                msg=lambda text, at=index: f"{launch.name}, argument {at}: {text}",
            )


def _versions() -> dict[str, str]:
    import cupy
    from cupy.cuda import nvrtc

    ncu = subprocess.run(["ncu", "--version"], capture_output=True, text=True).stdout
    return {
        "gpu": torch.cuda.get_device_name(),
        "driver": _driver(),
        "nvrtc": ".".join(map(str, nvrtc.getVersion())),
        "cupy": cupy.__version__,
        "ncu": next((line.split()[1] for line in ncu.splitlines() if line.startswith("Version")), "unknown"),
    }


def _driver() -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True).stdout.splitlines()[0]


def rows(path: Path) -> Iterator[dict[str, str]]:
    """The launches of a CSV file that Nsight Compute wrote, in order."""
    lines = path.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith('"ID"'))
    table = csv.DictReader(lines[start:])
    next(table)  # the units
    yield from table


def store(code: Path, counters: Path, into: Path) -> None:
    """Puts the counters with the machine code."""
    compiled, read = json.loads(code.read_text()), list(rows(counters))
    data = {"machine": compiled["machine"], "codes": _codes(compiled["cubins"])}
    if len(read) != len(LAUNCHES):
        raise SystemExit(f"{counters} has {len(read)} launches, there are {len(LAUNCHES)}")
    data["launches"] = {}
    for launch, row in zip(LAUNCHES, read, strict=True):
        if launch.kernel.split("<")[0] not in row["Kernel Name"]:
            raise SystemExit(f"{launch.name} launched {launch.kernel}, Nsight Compute saw {row['Kernel Name']}")
        data["launches"][launch.name] = {"text": compiled["texts"][launch.name], "counters": sums(row)}
    write(into, data)


def _codes(cubins: list[dict]) -> dict[str, dict]:
    """The machine code of every kernel that is launched."""
    # CuPy cuts off a cubin's last byte.
    texts = [(disassemble(base64.b64decode(one["cubin"]) + b"\0"), one["symbols"]) for one in cubins]
    codes: dict[str, dict] = {}
    for launch in LAUNCHES:
        for text, symbols in texts:
            symbol = symbols.get(launch.kernel)
            if symbol and f".text.{symbol}:" in text and f'{launch.path.name}", line' in text:
                codes[launch.code] = machine_code(text, symbol, launch.path.name).as_json()
    if missing := {launch.code for launch in LAUNCHES} - codes.keys():
        raise SystemExit(f"no machine code was seen of {', '.join(sorted(missing))}")
    return codes


def judge(path: Path) -> None:
    """Adds to each launch why its machine code does not do what its source says."""
    from .judged import judged

    data = json.loads(path.read_text())
    for launch in (launch for launch in LAUNCHES if launch.name in data["launches"]):
        data["launches"][launch.name]["differences"] = judged(launch, data["codes"]).differences
    write(path, data)


def write(path: Path, data: dict) -> None:
    """As JSON with a line for each launch and each kernel."""
    parts = []
    for key, value in data.items():
        if key == "machine":
            parts.append(f'"{key}": {json.dumps(value)}')
        else:
            lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(one)}" for name, one in value.items())
            parts.append(f'"{key}": {{\n{lines}\n}}')
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    if command == "metrics":
        print(metrics())
    else:
        {"launch": launch_all, "store": store, "judge": judge}[command](*map(Path, paths))
