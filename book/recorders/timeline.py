"""When the CPU asks and when the GPU computes: three short programs, recorded on a GPU by PyTorch's profiler.

    python -m book.recorders.timeline FOLDER     write FOLDER/<gpu>.json

The file holds `machine` and `programs`: for each program its spans, {"lane": "CPU" or "GPU", "name", "start_us", "end_us"},
from the start of the first.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from kernels.measure.recorded.timeline import programs
from kernels.measure.results import facts, file_name

LANES = {"cuda_runtime": "CPU", "kernel": "GPU", "gpu_memcpy": "GPU"}


def spans(program: Callable[[], None]) -> list[dict]:
    """What the CPU asked of CUDA and what the GPU did, in order of time, up to the synchronisation at the end."""
    for _ in range(3):
        program()
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(2):  # the profiler's own start falls on the first
            program()
            torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    kept = sorted((e for e in events if e.get("cat") in LANES and e.get("dur", 0) > 0), key=lambda e: e["ts"])
    first, second, *_ = (e["ts"] + e["dur"] for e in kept if e["name"] == "cudaDeviceSynchronize")
    kept = [event for event in kept if first <= event["ts"] < second]
    start = kept[0]["ts"]
    return [
        {
            "lane": LANES[event["cat"]],
            "name": event["name"][:60],
            "start_us": round(event["ts"] - start, 2),
            "end_us": round(event["ts"] + event["dur"] - start, 2),
        }
        for event in kept
    ]


if __name__ == "__main__":
    about = facts()
    recorded = {name: spans(program) for name, program in programs().items()}
    target = Path(sys.argv[1]) / file_name(about["gpu"])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"machine": about, "programs": recorded}, indent=1) + "\n")
