"""Which limit the stored profiles' kernels have met: bytes, instructions, or latency where neither is near."""

from __future__ import annotations

from kernels.figures import GREY, Picture
from kernels.measure.recorded import profile

NEAR = 75  # percent
LIMITS = ("bytes", "instructions", "latency")


def limit(kernel: dict, near: float = NEAR) -> str:
    """The limit that a kernel is near, by how busy memory and the schedulers were, in percent."""
    if kernel["dram_percent"] >= near:
        return "bytes"
    return "instructions" if kernel["issue_percent"] >= near else "latency"


def by_limit(gpu: str, at_least_us: float = 20) -> dict[str, list[tuple[str, dict]]]:
    """The stored kernels that take so long, by their limit, each with the words for what was called."""
    found: dict[str, list[tuple[str, dict]]] = {name: [] for name in LIMITS}
    for call in profile.stored(gpu)["profiles"]:
        about = (call.get("contestant") or call["group"], call.get("case"), call.get("direction"))
        called = " ".join(str(part) for part in (*about, "×".join(map(str, call.get("shape", ())))) if part)
        for kernel in call["kernels"]:
            if kernel["us"] >= at_least_us:
                found[limit(kernel)].append((f"{called} {kernel['name']}", kernel))
    return found


def figure(gpu: str) -> Picture:
    """How busy memory was, to the right, and the schedulers, upwards: a point for each kernel of `by_limit`."""
    import plotly.graph_objects as go

    figure = go.Figure()
    kernels = by_limit(gpu)
    for symbol, (name, found) in enumerate(kernels.items()):
        figure.add_scatter(
            x=[kernel["dram_percent"] for _, kernel in found],
            y=[kernel["issue_percent"] for _, kernel in found],
            hovertext=[called for called, _ in found],
            name=f"limited by {name}",
            mode="markers",
            marker={"symbol": symbol, "size": 9},
        )
    figure.update_xaxes(title="memory busy, % of its peak rate (a mark is a kernel)", range=[-3, 103], dtick=25)
    figure.update_yaxes(title="schedulers busy, % of slots", range=[-3, 103], dtick=25)
    border = {"type": "line", "line": {"dash": "dot", "color": GREY}, "layer": "below"}
    figure.add_shape(border, x0=NEAR, x1=NEAR, y0=-3, y1=103)
    figure.add_shape(border, x0=-3, x1=NEAR, y0=NEAR, y1=NEAR)
    counts = ", ".join(f"{len(found)} at the limit of {name}" for name, found in kernels.items())
    return Picture(figure, f"Kernels by how busy memory and the schedulers were: {counts}.")
