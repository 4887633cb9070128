"""Resident warps against what a kernel takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kernels.figures import LEVEL_COLORS, Picture
from kernels.hardware import WARP

if TYPE_CHECKING:
    from kernels.lens.occupancy import Occupancy


def curves(own: Occupancy, most: Mapping[str, int], most_warps: int) -> Picture:
    """Three curves, each with the other two resources as the kernel has them, and the kernel's point on each.

    most: of each field of `own`. most_warps: that a multiprocessor holds.
    """
    from plotly.subplots import make_subplots

    swept = {
        "threads": ("threads of a block", range(WARP, most["threads"] + 1, WARP)),
        "registers": ("registers of a thread", range(1, most["registers"] + 1)),
        "shared_bytes": ("KiB of shared memory a block", range(0, most["shared_bytes"] + 1, 512)),
    }
    figure = make_subplots(rows=3, cols=1, vertical_spacing=0.13)
    for row, (name, (title, values)) in enumerate(swept.items(), start=1):
        here = getattr(own, name)
        values = sorted({*values, here})
        points = [replace(own, **{name: value}) for value in values]
        unit = 1024 if name == "shared_bytes" else 1
        figure.add_scatter(
            x=[value / unit for value in values],
            y=[point.warps for point in points],
            customdata=[[point.blocks, " and ".join(point.limited_by)] for point in points],
            hovertemplate="%{x:,}: %{y} warps in %{customdata[0]} blocks, limited by %{customdata[1]}<extra></extra>",
            line={"color": LEVEL_COLORS[4], "shape": "hv" if name != "threads" else "linear"},
            mode="lines+markers" if name == "threads" else "lines",
            marker={"size": 4},
            row=row,
            col=1,
        )
        figure.add_scatter(
            x=[here / unit],
            y=[own.warps],
            mode="markers+text",
            marker={"size": 12, "color": LEVEL_COLORS[5], "symbol": "diamond"},
            text=[f"{own.warps} warps"],
            textposition="top right",
            hoverinfo="skip",
            row=row,
            col=1,
        )
        figure.update_xaxes(title=title, row=row, col=1)
    figure.update_yaxes(range=[-3, most_warps + 14], dtick=16, title="resident warps")
    figure.update_layout(showlegend=False, height=640)
    return Picture(
        figure,
        f"Resident warps of a multiprocessor against the threads of a block, the registers of a thread "
        f"and the shared memory of a block, in steps that fall as a block takes more; the kernel stands at {own}.",
    )
