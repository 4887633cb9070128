"""The ladder: how fast each level of an operation was on a GPU, from its results file.

python -m kernels.measure.ladder book/ladder.svg     draw the README's figure; needs Chromium
"""

import json
import shutil
import sys
from pathlib import Path

from kernels import figures
from kernels.measure.results import Results, stored

GPU = "NVIDIA H200"
SHAPE = [32_768, 4_096]
OTHERS = "#888888"


def ladder(results: Results, operation: str, shape: list[int]):
    """A bar for each variant, peer and the copy, slowest first, as a `plotly.graph_objects.Figure`.

    Args:
        results: of one GPU.
        operation: by name; its forward rows are drawn.
        shape: of the main input.

    Raises:
        ValueError: there is no such row.
    """
    import plotly.graph_objects as go

    rows = [
        row
        for row in results.rows
        if (row["operation"], row["shape"], row["direction"]) == (operation, list(shape), "forward")
    ]
    if not rows:
        raise ValueError(f"shape: no forward row of {operation} has shape {list(shape)} in these results")
    rows.sort(key=lambda row: row["gbps"])
    names = [f"{row['level']} {row['contestant']}" if row["level"] else row["contestant"] for row in rows]
    bars = go.Bar(
        x=[row["gbps"] for row in rows],
        y=names,
        orientation="h",
        text=[f"{row['gbps']:,.0f}" for row in rows],
        textposition="outside",
        cliponaxis=False,
        marker_color=[figures.LEVEL_COLORS.get(row["level"], OTHERS) for row in rows],
    )
    size = " × ".join(f"{n:,}" for n in shape)
    title = f"{size} {rows[0]['dtype']}, {results.machine['gpu']}"
    room = [0, 1.2 * rows[-1]["gbps"]]  # for the numbers beyond the bars
    return go.Figure(
        bars,
        {
            "title": {"text": title, "xref": "container", "font_size": 14},
            "xaxis": {"title": "GB/s (fewest bytes)", "range": room},
        },
    )


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
    draw(ladder(stored(GPU), "layer_norm", SHAPE), Path(sys.argv[1]))
