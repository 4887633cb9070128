"""Plotly figures for notebooks: drawn by JupyterLab, by the rendered book, and read aloud as their text alternative."""

import json
from dataclasses import dataclass
from typing import Any

LEVEL_COLORS = {1: "#706738", 2: "#db58ce", 3: "#00a690", 4: "#1957ff", 5: "#ed6f00"}
"""One colour for each level. Every pair stays apart for colour-blind readers; all have a contrast of at least 3:1 on
white and on the book's dark background."""

PLOTLY_MIME = "application/vnd.plotly.v1+json"
GREY = "#777777"  # the one grey that can be read on white and on JupyterLab's dark background
FAINT = "rgba(127, 127, 127, 0.25)"


@dataclass(frozen=True, repr=False)
class Picture:
    """A Plotly figure in the house style, with a text alternative. As the last value of a notebook's cell it shows itself.

    figure: a `plotly.graph_objects.Figure`. When it has frames, the figure itself is the state of its first frame;
        JupyterLab gets a slider over the frames, the book the browser's own buttons and slider.
    alt: what the figure shows, in a sentence or two, for those who cannot see it.
    """

    figure: Any
    alt: str

    def __repr__(self) -> str:
        return self.alt

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {PLOTLY_MIME: mime_data(self.figure, self.alt), "text/plain": self.alt}


def show(figure, alt: str) -> None:
    """Display a Plotly figure as `Picture` does.

    Raises:
        TypeError: `figure` is not a Plotly figure.
        ValueError: `alt` is empty, or two frames have the same name.
    """
    from IPython.display import display

    display(Picture(figure, alt)._repr_mimebundle_(), raw=True)


def mime_data(figure, alt: str) -> dict:
    """The figure as JSON data for `application/vnd.plotly.v1+json`: the same figure always gives the same data."""
    graph_objects = _plotly()
    if not isinstance(figure, graph_objects.Figure):
        raise TypeError(f"figure: got {type(figure).__name__}, expected a plotly.graph_objects.Figure")
    if not isinstance(alt, str) or not alt.strip():
        raise ValueError(f"alt: got {alt!r}, expected a sentence that says what the figure shows")
    data = json.loads(figure.to_json())
    data["layout"]["template"] = template().to_plotly_json()
    for name, axis in data["layout"].items():
        if name.startswith(("xaxis", "yaxis")) and axis.get("type") == "log" and "tickvals" not in axis:
            axis.setdefault("dtick", 1)  # labels at powers of ten only: those between them are small
    if data.get("frames"):
        _add_slider(data)
    else:
        data.pop("frames", None)
    return {**data, "config": {"displayModeBar": False, "responsive": True}}


def template():
    """The house style, a `plotly.graph_objects.layout.Template`; also registered with Plotly as "kernels"."""
    graph_objects = _plotly()
    import plotly.io

    if "kernels" not in plotly.io.templates:
        axis = {
            "gridcolor": FAINT,
            "linecolor": GREY,
            "zerolinecolor": FAINT,
            "ticks": "outside",
            "tickcolor": FAINT,
            "automargin": True,
        }
        axis["title"] = {"standoff": 12, "font": {"size": 14}}
        plotly.io.templates["kernels"] = graph_objects.layout.Template(
            layout={
                "autosize": True,
                "colorway": list(LEVEL_COLORS.values()),
                "font": {"family": "system-ui, sans-serif", "size": 14, "color": GREY},
                "title": {
                    "font": {"size": 16},
                    "x": 0,
                    "xanchor": "left",
                    "xref": "container",
                    "y": 1,
                    "yref": "container",
                    "yanchor": "top",
                    "automargin": True,
                    "pad": {"t": 8, "b": 16},
                },
                "paper_bgcolor": "rgba(0,0,0,0)",
                "plot_bgcolor": "rgba(0,0,0,0)",
                "margin": {"l": 8, "r": 8, "t": 16, "b": 8},
                "height": 380,
                "legend": {
                    "orientation": "h",
                    "x": 0,
                    "xanchor": "left",
                    "y": 0,
                    "yref": "container",
                    "yanchor": "bottom",
                },
                "hovermode": "closest",
                "xaxis": axis,
                "yaxis": axis,
            },
            data={"heatmap": [{"colorscale": "Cividis"}]},
        )
    return plotly.io.templates["kernels"]


def _add_slider(data):
    """Names the frames and gives JupyterLab a slider over them; the book replaces it with controls of the browser's."""
    names = [frame.setdefault("name", str(number)) for number, frame in enumerate(data["frames"], start=1)]
    if len(set(names)) < len(names):
        raise ValueError(f"figure.frames: got the names {names}, expected each once")
    now = {
        "mode": "immediate",
        "frame": {"duration": 0, "redraw": True},
        "transition": {"duration": 0},
    }
    steps = [{"method": "animate", "label": name, "args": [[name], now]} for name in names]
    slider = {"active": 0, "steps": steps, "pad": {"t": 48, "r": 40}, "currentvalue": {"prefix": ""}}
    if max(map(len, names)) > 15:  # they would lie on each other below the slider; that of the frame stands above it
        slider |= {"font": {"color": "rgba(0,0,0,0)"}, "currentvalue": {"prefix": "", "font": {"color": GREY}}}
    data["layout"]["sliders"] = [slider]


def _plotly():
    try:
        import plotly.graph_objects
    except ImportError as error:
        raise ImportError("kernels.figures draws with Plotly, which is not installed: pip install plotly") from error
    return plotly.graph_objects
