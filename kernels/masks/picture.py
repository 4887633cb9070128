"""Patterns drawn: which blocks of keys each block of queries sees in full, in part, or not at all."""

from collections.abc import Mapping

from kernels.figures import FAINT, Picture
from kernels.masks.blocks import Blocks, blocks
from kernels.masks.pattern import Pattern

KINDS = ("empty", "partial", "full")  # by the values in Blocks.kinds
COLORS = (FAINT, "#ed6f00", "#1957ff")


def picture(patterns: Mapping[str, Pattern], length: int, size: int) -> Picture:
    """A map for each pattern, by name: queries downwards, keys to the right, `size` × `size` positions a cell; of the first
    batch and head. Needs Plotly.

    ValueError: no patterns, or what `blocks` refuses.
    """
    if not patterns:
        raise ValueError("patterns: got none, expected at least one")
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    counted = {name: _first(one, length, size) for name, one in patterns.items()}
    scale = [[edge / 3, color] for value, color in enumerate(COLORS) for edge in (value, value + 1)]
    figure = make_subplots(1, len(counted), subplot_titles=list(counted), shared_yaxes=True)
    for column, one in enumerate(counted.values(), 1):
        cells = one.kinds[0, 0].tolist()
        words = [[KINDS[cell] for cell in row] for row in cells]
        drawn = go.Heatmap(
            z=cells, text=words, zmin=-0.5, zmax=2.5, colorscale=scale, showscale=False, xgap=1, ygap=1
        ).update(hovertemplate="queries %{y}, keys %{x}: %{text}<extra></extra>")
        figure.add_trace(drawn, 1, column)
        figure.update_xaxes(title_text="block of keys", constrain="domain", row=1, col=column)
        figure.update_yaxes(autorange="reversed", scaleanchor="x" if column == 1 else f"x{column}", row=1, col=column)
    for kind, color in zip(KINDS, COLORS, strict=True):  # a legend, which heatmaps do not have
        figure.add_trace(go.Scatter(x=[None], y=[None], mode="markers", name=kind, marker={"color": color, "size": 12}))
    figure.update_yaxes(title_text="block of queries", col=1)
    said = "; ".join(
        f"{name} {one.full} full, {one.partial} partial, {one.empty} empty" for name, one in counted.items()
    )
    return Picture(figure, f"Blocks of {size} × {size} positions, of {length:,}: {said}.")


def _first(pattern: Pattern, length: int, size: int) -> Blocks:
    return Blocks(blocks(pattern, 1, pattern.heads or 1, length, length, size).kinds[:, :1], size)
