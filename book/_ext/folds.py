"""One fold where a chapter has several in a row: code that shows nothing joins the folded code below it.

Cells are short, so what prepares a figure is often two or three of them. A reader of the page has no use for the borders.
"""

import json


def folded(cell):
    return cell["cell_type"] == "code" and "hide-input" in cell["metadata"].get("tags", ())


def joined(cells):
    """The cells of a page, each folded one without an output put in front of the next, if that is folded as well."""
    found = []
    for cell in cells:
        if "remove-cell" in cell["metadata"].get("tags", ()):
            continue
        before = found[-1] if found else None
        if before and folded(before) and not before["outputs"] and folded(cell):
            source = "".join(found.pop()["source"]).rstrip() + "\n\n" + "".join(cell["source"])
            cell = {**cell, "source": source}
        found.append(cell)
    return found


def rewrite(app, docname, source):
    if str(app.env.doc2path(docname)).endswith(".ipynb"):
        notebook = json.loads(source[0])
        notebook["cells"] = joined(notebook["cells"])
        source[0] = json.dumps(notebook)


def setup(app):
    app.connect("source-read", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
