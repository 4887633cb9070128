"""Execute notebooks and store their outputs, so that a second run changes no byte.

    python book/references.py NOTEBOOK...

A cell tagged `raw` shows times or facts of one machine. Its stored output is kept while its text is the same: it would
differ at every run, and nothing compares it. Delete the output to have it taken anew.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def execute(path: Path) -> None:
    """Execute the notebook at `path` in its own folder and write it back."""
    before = nbformat.read(path, as_version=4)
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=120,
        record_timing=False,
        coalesce_streams=True,  # else lines are grouped by when they came
        resources={"metadata": {"path": path.parent}},
    )
    client.execute()
    for cell, old in zip(notebook.cells, before.cells, strict=True):
        if "raw" in cell.metadata.get("tags", []) and old.get("outputs"):
            cell.outputs = old.outputs
    # Without the version of whoever ran it.
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        execute(Path(name))
        print(name)
