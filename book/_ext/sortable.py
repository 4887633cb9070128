"""Tables of class `sortable` can be sorted and filtered in the page.

That is done by DataTables, served from the `itables` wheel, which carries it as one file, and by `sortable.js`. Without
JavaScript, or opened as a file rather than served, the page shows a plain table: browsers load no modules from files.
"""

from importlib import metadata

DATATABLES = "itables/html/dt_bundle.js"


def serve_datatables(app, config):
    config.html_static_path.append(str(metadata.distribution("itables").locate_file(DATATABLES)))


def load_where_needed(app, pagename, templatename, context, doctree):
    tables = doctree.findall(lambda node: node.tagname == "table" and "sortable" in node["classes"]) if doctree else ()
    if any(tables):
        app.add_js_file("sortable.js", type="module")


def setup(app):
    app.connect("config-inited", serve_datatables, priority=900)
    app.connect("html-page-context", load_where_needed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
