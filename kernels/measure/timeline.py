"""When the CPU asks and when the GPU computes: three short programs, recorded on a GPU by PyTorch's profiler.

    python -m kernels.measure.timeline FOLDER     write FOLDER/<gpu>.json

The file holds `machine` and `programs`: for each program its spans, {"lane": "CPU" or "GPU", "name", "start_us", "end_us"},
from the start of the first.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from kernels.measure.results import FOLDER, facts, file_name

TIMELINES = FOLDER / "timelines"
STEPS = 6
LANE_COLORS = {"CPU": "#888888", "GPU": "#ed6f00"}
LANES = {"cuda_runtime": "CPU", "kernel": "GPU", "gpu_memcpy": "GPU"}


def programs() -> dict[str, Callable[[], None]]:
    """Six multiplications of small tensors, of large tensors, and of large tensors with a look at each result."""
    small, large = (torch.ones(n, device="cuda") for n in (2**10, 2**26))

    def multiply(x: torch.Tensor) -> None:
        for _ in range(STEPS):
            x = x * 1.5

    def multiply_and_look() -> None:
        x = large
        for _ in range(STEPS):
            x = x * 1.5
            x[0].item()

    return {"small": lambda: multiply(small), "large": lambda: multiply(large), "look": multiply_and_look}


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


def stored(gpu: str) -> dict:
    """The committed timelines of a GPU by its name, such as "NVIDIA H200"."""
    return json.loads((TIMELINES / file_name(gpu)).read_text())


def computing(spans: list[dict]) -> float:
    """The part of the program's time in which a kernel runs on the GPU."""
    kernels = _kernels(spans)
    return sum(s["end_us"] - s["start_us"] for s in kernels) / max(s["end_us"] for s in spans)


def idle(spans: list[dict]) -> list[float]:
    """The time between each kernel and the next, in microseconds."""
    kernels = _kernels(spans)
    return [after["start_us"] - before["end_us"] for before, after in zip(kernels, kernels[1:], strict=False)]


def _kernels(spans: list[dict]) -> list[dict]:
    return [span for span in spans if span["lane"] == "GPU" and not span["name"].startswith("Memcpy")]


def figure(programs: dict[str, list[dict]]):
    """CPU above GPU over time, a frame for each program, as a `plotly.graph_objects.Figure`."""
    import plotly.graph_objects as go

    frames = []
    for name, spans in programs.items():
        bars = go.Bar(
            y=[s["lane"] for s in spans],
            base=[s["start_us"] for s in spans],
            x=[s["end_us"] - s["start_us"] for s in spans],
            hovertext=[s["name"] for s in spans],
            orientation="h",
            marker_color=[LANE_COLORS[s["lane"]] for s in spans],
        )
        time = {"title": "microseconds", "range": [0, 1.05 * max(s["end_us"] for s in spans)]}
        layout = {"xaxis": time, "yaxis": {"categoryarray": ["GPU", "CPU"]}}
        frames.append(go.Frame(data=[bars], layout=layout, name=name))
    return go.Figure(frames[0].data, frames[0].layout, frames)


if __name__ == "__main__":
    about = facts()
    recorded = {name: spans(program) for name, program in programs().items()}
    target = Path(sys.argv[1]) / file_name(about["gpu"])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"machine": about, "programs": recorded}, indent=1) + "\n")
