"""A stored profile as a picture, in the sections that Nsight Compute's own report begins with."""

from __future__ import annotations

from kernels.figures import LEVEL_COLORS, Picture

SECTIONS = (
    "GPU Speed Of Light, % of the peak",
    "Occupancy, % of 64 warps",
    "Warp State: stalls, cycles an instruction",
)


def report(kernels: dict[str, dict]) -> Picture:
    """A frame for each kernel of `profile.find`, by the name that it has here: how busy memory and the schedulers were, the
    warps that fit and those that were there, and the longest stalls."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    frames = [go.Frame(name=name, data=_bars(one), layout=_axes(one)) for name, one in kernels.items()]
    figure = make_subplots(rows=3, row_heights=[2, 2, 4], vertical_spacing=0.16, subplot_titles=SECTIONS)
    for row, bar in enumerate(frames[0].data, start=1):
        figure.add_trace(bar, row=row, col=1)
    # The same place for names in all frames, so that a bar grows from where it stood.
    room = 7.5 * max(len(name) for one in kernels.values() for values in _sections(one) for name in values)
    figure.update_annotations(x=0, xanchor="left", xshift=-room, font_size=14)
    figure.update_yaxes(automargin=False)
    figure.update_layout(showlegend=False, height=460, margin_l=room + 8)
    figure.update_layout(frames[0].layout)
    figure.frames = frames if len(frames) > 1 else ()
    return Picture(figure, "; ".join(f"{name}: {_said(one)}" for name, one in kernels.items()))


def _sections(kernel: dict) -> list[dict[str, float]]:
    light = {"DRAM Throughput": kernel["dram_percent"], "Issue Slots Busy": kernel["issue_percent"]}
    # Of a launch in clusters there is no theoretical occupancy.
    warps = {"Theoretical": kernel.get("resident_percent", 0), "Achieved": kernel["active_percent"]}
    stalls = {reason.replace("_", " ").title(): cycles for reason, cycles in kernel["stalls"].items()}
    return [light, warps, stalls]


def _bars(kernel: dict) -> list:
    import plotly.graph_objects as go

    return [
        go.Bar(
            x=[*values.values()],
            y=[*values],
            text=[f"{value:.3g}" for value in values.values()],
            textposition="auto",
            orientation="h",
            marker_color=LEVEL_COLORS[4],
            xaxis=f"x{row}" if row > 1 else "x",
            yaxis=f"y{row}" if row > 1 else "y",
        )
        for row, values in enumerate(_sections(kernel), start=1)
    ]


def _axes(kernel: dict) -> dict:
    layout: dict[str, dict] = {}
    for row, values in zip(("", "2", "3"), _sections(kernel), strict=True):
        most = 105.0 if row != "3" else 1.05 * max(values.values())
        layout["xaxis" + row] = {"range": [0, most]}
        layout["yaxis" + row] = {"categoryorder": "array", "categoryarray": [*values][::-1]}
    return layout


def _said(kernel: dict) -> str:
    light, warps, stalls = _sections(kernel)
    reasons = ", ".join(f"{name} {cycles:g}" for name, cycles in stalls.items())
    return (
        f"memory {light['DRAM Throughput']:g} % and schedulers {light['Issue Slots Busy']:g} % busy, "
        f"{warps['Achieved']:g} % of the warps there, {reasons}"
    )
