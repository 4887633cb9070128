"""When the CPU asks and when the GPU computes: three short programs, recorded by book/recorders/timeline.py.

A program's record is its spans, {"lane": "CPU" or "GPU", "name", "start_us", "end_us"}, from the start of the first.
"""

import json
from collections.abc import Callable

import torch

from kernels.measure.results import FOLDER, file_name

TIMELINES = FOLDER / "timelines"
STEPS = 6
LANE_COLORS = {"CPU": "#888888", "GPU": "#ed6f00"}


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
