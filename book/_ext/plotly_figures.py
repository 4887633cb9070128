"""Shows a notebook's Plotly outputs in the page.

A notebook stores a figure once, as Plotly's own MIME type, which JupyterLab draws. Here each such output gets a
`text/html` form beside it, which `figures.js` draws with a part of Plotly, `book/plotly`.
"""

import html
import json

PLOTLY_MIME = "application/vnd.plotly.v1+json"


def figure_html(figure, alt):
    """The element that `figures.js` draws; until it does, and without JavaScript, the page shows `alt`."""
    data = json.dumps(figure, separators=(",", ":")).replace("</", "<\\/")
    return (
        f'<figure class="plotly-figure"><div class="plot" role="img" aria-label="{html.escape(alt)}">{html.escape(alt)}'
        f'</div><script type="application/json">{data}</script></figure>'
    )


def add_html_to_figures(app, docname, source):
    if not str(app.env.doc2path(docname)).endswith(".ipynb"):
        return
    notebook = json.loads(source[0])
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if PLOTLY_MIME in data:
                data["text/html"] = figure_html(data.pop(PLOTLY_MIME), "".join(data.get("text/plain", "Figure")))
    source[0] = json.dumps(notebook)


def load_plotly_where_needed(app, pagename, templatename, context, doctree):
    if 'class="plotly-figure"' in context.get("body", ""):
        app.add_js_file("plotly.min.js", loading_method="defer")
        app.add_js_file("figures.js", loading_method="defer")


def setup(app):
    app.connect("source-read", add_html_to_figures)
    app.connect("html-page-context", load_plotly_where_needed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
