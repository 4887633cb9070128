"""A picture made of rows of cells that lanes of a warp touch, one frame a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kernels.figures import FAINT

# Blue to orange by lane. All are as bright: they stand out on white and on black, and black text can be read on them.
_COLORS = ["#5d90f6", "#36a190", "#e47412"]


class Cell(NamedTuple):
    lanes: tuple[int, ...]
    hover: str


class Row(NamedTuple):
    label: str
    cells: Mapping[int, Cell]  # by column; others stay empty


class Frame(NamedTuple):
    who: str
    words: str  # what it takes
    rows: Sequence[Row]


def draw(frames: Sequence[Frame], columns: Sequence[str], x: str, y: str, empty: str):
    """A `plotly.graph_objects.Figure`. columns: their labels. x, y: titles of the axes. empty: what an empty cell means."""
    from plotly import graph_objects

    count = max(len(frame.rows) for frame in frames)
    drawn = [_drawn(frame, len(columns), empty) for frame in frames]
    axis = {"showgrid": False, "zeroline": False, "fixedrange": True}
    figure = graph_objects.Figure(drawn[0]["data"], drawn[0]["layout"])
    figure.update_layout(
        height=110 + count * (28 if count <= 8 else 20 if count <= 16 else 18), barmode="overlay", showlegend=False
    )
    every = max(1, len(columns) // 8)
    ticks = {"tickvals": list(range(0, len(columns), every)), "ticktext": list(columns[::every])}
    figure.update_xaxes(title=x, range=[-0.5, len(columns) - 0.5], **ticks, **axis)
    figure.update_yaxes(title=y, range=[count - 0.5, -0.5], automargin=False, **axis)
    # The same margin in all frames, or else the cells would move with the length of their labels.
    longest = max(len(row.label) for frame in frames for row in frame.rows)
    figure.update_layout(margin_l=40 + 8 * longest)
    names = [f"{frame.who}: {frame.words}" for frame in frames]
    if len(frames) > 1:
        figure.frames = [graph_objects.Frame(name=name, **one) for name, one in zip(names, drawn, strict=True)]
    else:
        figure.update_layout(title=names[0], height=figure.layout.height + 30)
    return figure


def _drawn(frame: Frame, columns: int, empty: str) -> dict:
    """The traces of a frame, and the labels of its rows."""
    cells = [(row, column, cell) for row, (_, row_cells) in enumerate(frame.rows) for column, cell in row_cells.items()]
    behind = {
        "type": "heatmap",
        "z": np.zeros((len(frame.rows), columns), np.int8),
        "colorscale": [[0, FAINT], [1, FAINT]],
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "hovertemplate": f"{empty}<extra></extra>",
    }
    touched = {
        "type": "bar",
        "orientation": "h",
        "y": [row for row, *_ in cells],
        "base": [column - 0.47 for _, column, _ in cells],
        "x": [0.94] * len(cells),
        "width": 0.9,
        "marker": {
            "color": [cell.lanes[0] for *_, cell in cells],
            "cmin": 0,
            "cmax": 31,
            "colorscale": [[place / (len(_COLORS) - 1), color] for place, color in enumerate(_COLORS)],
        },
        "text": [spans(cell.lanes) for *_, cell in cells],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"color": "black"},
        "hovertext": [cell.hover for *_, cell in cells],
        "hoverinfo": "text",
    }
    # Of many rows every fourth has a label.
    shown = range(0, len(frame.rows), 1 if len(frame.rows) <= 16 else 4)
    ticks = {"tickvals": list(shown), "ticktext": [frame.rows[row].label for row in shown]}
    return {"data": [behind, touched], "layout": {"yaxis": ticks}}


def spans(lanes: Sequence[int]) -> str:
    """Numbers in few words: 0–3, 7."""
    words, first = [], 0
    for place in range(1, len(lanes) + 1):
        if place == len(lanes) or lanes[place] != lanes[place - 1] + 1:
            words.append(str(lanes[first]) if place - first == 1 else f"{lanes[first]}–{lanes[place - 1]}")
            first = place
    return ", ".join(words)
