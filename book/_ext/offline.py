"""Serves what the pages load from installed packages, so that the rendered book needs no network."""

from importlib import metadata
from pathlib import Path

MATHJAX = "sphinx-mathjax-offline/static/mathjax/tex-svg-full.js"  # one file: TeX input, SVG output, every TeX package
PLOTLY = "plotly/package_data/plotly.min.js"


def serve_from_packages(app, config):
    for package, file in (("sphinx-mathjax-offline", MATHJAX), ("plotly", PLOTLY)):
        config.html_static_path.append(str(metadata.distribution(package).locate_file(file)))
    config.mathjax_path = Path(MATHJAX).name
    # MathJax's menu would ask for components and speech files that the one file does not hold.
    config.mathjax3_config = {
        **(config.mathjax3_config or {}),
        "options": {"enableMenu": False},
    }


def setup(app):
    app.connect("config-inited", serve_from_packages, priority=900)
    app.add_css_file("book.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
