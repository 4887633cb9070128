"""What every page loads: the book's style, and of the theme's icons only those that it shows."""

from pathlib import Path

TEMPLATES = Path(__file__).resolve().parents[1] / "_templates"


def without_font_awesome(app, config):
    config.templates_path.append(str(TEMPLATES))


def setup(app):
    app.connect("config-inited", without_font_awesome, priority=900)
    app.add_css_file("icons.css")
    app.add_css_file("book.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
