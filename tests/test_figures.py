"""What `kernels.figures` puts into a notebook."""

import json
import sys

import pytest

from kernels import figures

graph_objects = pytest.importorskip("plotly.graph_objects")


def bars(**options):
    return graph_objects.Figure(graph_objects.Bar(x=["a", "b"], y=[1, 2]), **options)


def frames(*names):
    return [graph_objects.Frame(name=name, data=[graph_objects.Bar(y=[n, 1])]) for n, name in enumerate(names)]


def luminance(color):
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("ground", ["#ffffff", "#121212"])
@pytest.mark.parametrize("level", figures.LEVEL_COLORS)
def test_level_colors_stand_out_in_light_and_dark(level, ground):
    dark, light = sorted(luminance(color) for color in (figures.LEVEL_COLORS[level], ground))
    assert (light + 0.05) / (dark + 0.05) >= 3


def test_show_gives_the_figure_and_its_text(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append((data, raw)))
    figures.show(bars(), alt="Two bars.")
    ((data, raw),) = shown
    assert raw
    assert list(data) == [figures.PLOTLY_MIME, "text/plain"]
    assert data["text/plain"] == "Two bars."
    assert data[figures.PLOTLY_MIME]["data"][0]["type"] == "bar"


def test_the_same_figure_gives_the_same_bytes_and_is_left_as_it_was():
    figure = bars(frames=frames("one", "two"))
    before = figure.to_json()
    first, second = (json.dumps(figures.mime_data(figure, alt="Bars.")) for _ in range(2))
    assert first == second == json.dumps(figures.mime_data(bars(frames=frames("one", "two")), alt="Bars."))
    assert figure.to_json() == before


def test_the_house_style_is_transparent_and_registered():
    import plotly.io

    layout = figures.mime_data(bars(), alt="Bars.")["layout"]["template"]["layout"]
    assert layout["paper_bgcolor"] == layout["plot_bgcolor"] == "rgba(0,0,0,0)"
    assert layout["colorway"] == list(figures.LEVEL_COLORS.values())
    assert "kernels" in plotly.io.templates


def test_frames_get_a_slider_that_names_each():
    data = figures.mime_data(bars(frames=frames("load", None)), alt="Bars.")
    assert [frame["name"] for frame in data["frames"]] == ["load", "2"]
    (slider,) = data["layout"]["sliders"]
    assert [step["args"][0] for step in slider["steps"]] == [["load"], ["2"]]
    assert "frames" not in figures.mime_data(bars(), alt="Bars.")


def test_long_names_of_frames_do_not_lie_on_each_other():
    """JupyterLab's slider shows every name below it, and the current one above."""
    short, long = (
        figures.mime_data(bars(frames=frames(*names)), alt="Bars.")["layout"]["sliders"][0]
        for names in (("load", "store"), ("load of 4 sectors", "store of 32 sectors"))
    )
    assert "font" not in short
    assert long["font"]["color"] == "rgba(0,0,0,0)" != long["currentvalue"]["font"]["color"]


def test_a_picture_shows_itself():
    picture = figures.Picture(bars(), alt="Two bars.")
    assert picture._repr_mimebundle_() == {
        figures.PLOTLY_MIME: figures.mime_data(bars(), alt="Two bars."),
        "text/plain": "Two bars.",
    }
    assert repr(picture) == str(picture) == "Two bars."


def test_errors_say_what_came():
    with pytest.raises(TypeError, match="figure: got dict"):
        figures.show({"data": []}, alt="Bars.")
    with pytest.raises(ValueError, match="alt: got '  '"):
        figures.show(bars(), alt="  ")
    with pytest.raises(ValueError, match="each once"):
        figures.show(bars(frames=frames("one", "one")), alt="Bars.")


def test_without_plotly_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ImportError, match="pip install plotly"):
        figures.template()
