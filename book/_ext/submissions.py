"""Cells of labs that begin with `%%cuda` are CUDA C, not Python, and are coloured as such."""

from docutils import nodes


def _as_cuda(app, doctree):
    for block in doctree.findall(nodes.literal_block):
        if block.astext().startswith("%%cuda "):
            block["language"] = "cuda"


def setup(app):
    app.connect("doctree-read", _as_cuda)
    return {"version": "1", "parallel_read_safe": True}
