"""The ladder: how fast each level of an operation was on a GPU, from its results file.

python -m kernels.measure.ladder book/ladder.svg     draw the README's figure; needs Chromium
"""

import json
import shutil
import sys
from pathlib import Path

from kernels import figures
from kernels.measure.results import Results, described, stored, unusual

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
    rate, unit = ("tflops", "TFLOP/s") if any(row.get("tflops") for row in rows) else ("gbps", "GB/s (fewest bytes)")
    rows = sorted((row for row in rows if row.get(rate)), key=lambda row: row[rate])
    names = [f"{row['level']} {row['contestant']}" if row["level"] else row["contestant"] for row in rows]
    bars = go.Bar(
        x=[row[rate] for row in rows],
        y=names,
        orientation="h",
        text=[f"{row[rate]:,.0f}" for row in rows],
        textposition="outside",
        cliponaxis=False,
        marker_color=[figures.LEVEL_COLORS.get(row["level"], OTHERS) for row in rows],
    )
    size = " × ".join(f"{n:,}" for n in shape)
    what = " ".join([size, rows[0]["dtype"], *unusual(rows[0])])
    title = f"{what}, {results.machine['gpu']}"
    room = [0, 1.2 * rows[-1][rate]]  # for the numbers beyond the bars
    return go.Figure(
        bars,
        {
            "title": {"text": title, "xref": "container", "font_size": 14},
            "xaxis": {"title": unit, "range": room},
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
    draw(ladder(stored("layer_norm", GPU), SHAPE), Path(sys.argv[1]))
