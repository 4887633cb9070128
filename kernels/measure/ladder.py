"""The ladder: how fast each level of an operation was on a GPU, from its results file.

python -m kernels.measure.ladder book/ladder.svg     draw the README's figure; needs Chromium
"""

import json
import shutil
import sys
import textwrap
from pathlib import Path

from kernels import figures
from kernels.measure.results import Results, described, stored, unusual
from kernels.operation import Operation

GPU = "NVIDIA H200"
SHAPE = [32_768, 4_096]
OTHERS = "#888888"


def ladder(results: Results, shape: list[int], **which: object):
    """A bar for each variant, peer and the copy, slowest first, as a `plotly.graph_objects.Figure`.

    Args:
        results: of one operation on one GPU; its forward rows are drawn.
        shape: of the main input.
        which: what else tells the rows of one case from those of others, such as dtype="bfloat16", params={"causal": True}.

    Raises:
        ValueError: there is no such row, or the rows are of several cases.
    """
    import plotly.graph_objects as go

    wanted = {"direction": "forward", "shape": list(shape), **which}
    rows = [row for row in results.rows if wanted.items() <= row.items()]
    if not rows:
        raise ValueError(f"shape: no row of these results has {wanted}")
    cases = sorted({described(row) for row in rows})
    if len(cases) > 1:
        raise ValueError(f"which: {wanted} fits rows of {len(cases)} cases, say which: {', '.join(cases)}")
    rate, unit = (
        ("tflops", "TFLOP/s") if any(row.get("tflops") for row in rows) else ("gbps", "effective bandwidth, GB/s")
    )
    rows = sorted((row for row in rows if row.get(rate)), key=lambda row: row[rate])
    names = [f"{row['level']} {row['contestant']}" if row["level"] else row["contestant"] for row in rows]
    bars = go.Bar(
        x=[row[rate] for row in rows],
        y=names,
        orientation="h",
        text=[f"{row[rate]:,.0f}" for row in rows],
        textposition=["inside" if row[rate] > rows[-1][rate] / 2 else "outside" for row in rows],
        constraintext="none",  # as large as the bars allow would be too small to read
        textfont_size=11,
        insidetextfont_color=["#ffffff" if row["level"] in (1, 4) else "#000000" for row in rows],
        marker_color=[figures.LEVEL_COLORS.get(row["level"], OTHERS) for row in rows],
    )
    size = " × ".join(f"{n:,}" for n in shape)
    what = " ".join([size, rows[0]["dtype"], *unusual(rows[0])])
    title = f"{what}, {results.machine['gpu']}"
    return go.Figure(
        bars,
        {
            "title": {"text": title, "xref": "container", "font_size": 14},
            "xaxis": {"title": unit},
        },
    )


def by_width(op: Operation, results: Results) -> figures.Picture:
    """Every variant and peer as a part of a copy's speed, a frame for each direction and shape; a bar's idea as the pointer
    comes to it.

    Args:
        op: says the order of the bars, level by level and rung by rung, and the ideas.
        results: of that operation on one GPU.

    Raises:
        ValueError: there is no row of that operation, or in one frame a contestant has two.
    """
    import plotly.graph_objects as go

    ideas = {variant.key: variant.idea for variant in (*op.forward, *op.backward)}
    order = [*ideas, *dict.fromkeys(row["contestant"] for row in results.rows if row["kind"] == "peer")]
    frames = []
    for direction in ("forward", "backward"):
        found = [row for row in results.rows if (row["operation"], row["direction"]) == (op.name, direction)]
        for shape in sorted({tuple(row["shape"]) for row in found}, key=lambda shape: shape[-1]):
            rows = [row for row in found if tuple(row["shape"]) == shape and row["contestant"] in order]
            rows.sort(key=lambda row: order.index(row["contestant"]))
            names = [row["contestant"] for row in rows]
            if len(set(names)) < len(names):
                raise ValueError(f"results: {direction} {shape} has a contestant twice: {', '.join(names)}")
            bars = go.Bar(
                x=[row["ceiling_fraction"] for row in rows],
                y=names,
                orientation="h",
                text=[f"{row['ceiling_fraction']:.0%}" for row in rows],
                textposition=["inside" if row["ceiling_fraction"] > 0.5 else "outside" for row in rows],
                insidetextfont_color=["#ffffff" if row["level"] in (1, 4) else "#000000" for row in rows],
                marker_color=[figures.LEVEL_COLORS.get(row["level"], OTHERS) for row in rows],
                hovertext=["<br>".join(textwrap.wrap(ideas.get(name, "a peer"), 40)) for name in names],
                hoverinfo="text",
            )
            frames.append(go.Frame(data=[bars], name=f"{direction}, {shape[-1]:,} columns"))
    if not frames:
        raise ValueError(f"results: no row is of {op.name}")
    copy = {"type": "line", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "yref": "paper"}
    layout = {
        "height": 480,
        "xaxis": {"title": "part of a copy's speed", "tickformat": ".0%", "range": [0, 1.1], "dtick": 0.25},
        "yaxis": {"autorange": "reversed", "tickfont_size": 13},
        "shapes": [copy | {"line": {"dash": "dot", "color": OTHERS}, "layer": "below"}],
    }
    alt = (
        f"{op.name} on an {results.machine['gpu']}: every level, rung and peer as a part of a copy's speed, "
        f"for each direction and width."
    )
    return figures.Picture(go.Figure(frames[0].data, layout, frames), alt)


def draw(figure, path: Path) -> None:
    """Write a figure as SVG, drawn by Chromium."""
    from playwright.sync_api import sync_playwright
    from plotly.offline import get_plotlyjs

    drawing = figure.update_layout(template=figures.template()).to_json()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.set_content("<div id=figure></div>")
        page.add_script_tag(content=get_plotlyjs())
        uri = page.evaluate(
            """async drawing => {
                await Plotly.newPlot("figure", drawing.data, drawing.layout);
                return Plotly.toImage("figure", {format: "svg", width: 760, height: 360, imageDataOnly: true});
            }""",
            json.loads(drawing),
        )
        browser.close()
    path.write_text(uri + "\n")


if __name__ == "__main__":
    draw(ladder(stored("layer_norm", GPU), SHAPE), Path(sys.argv[1]))
