"""Copy the chapters and labs to `work/`, where a learner may change them: an update never collides with what is there.

A copy that is absent is made. One that was not edited follows the original; one that was is left alone, and if its original
has changed since, this says so. Running cells is no edit. `work/` has the folders of the repository, so that links hold, and
`contents.md`, which lists the pages in reading order: a file browser lists them by name.
"""

import hashlib
import json
import re
import shutil
from pathlib import Path

import nbformat
import yaml
from nbformat.sign import NotebookNotary

ROOT = Path(__file__).parents[1]
# What makes the book, and not what chapters read or show.
LEFT_OUT = {"_ext", "_static", "lab_settings", "lab_extensions"}
LEFT_OUT |= {
    "references.py",
    "generate.py",
    "working_copies.py",
    "ruff.toml",
}
LEFT_OUT |= {
    "solutions",
    "__pycache__",
    ".ipynb_checkpoints",
    ".ruff_cache",
}


def originals(root: Path) -> list[Path]:
    """What is copied, from the root: notebooks, and the files they use."""
    files = [
        path.relative_to(root)
        for top in ("book", "labs")
        for path in sorted((root / top).rglob("*"))
        if path.is_file()
    ]
    return [path for path in files if not LEFT_OUT & set(path.parts)]


def content(path: Path) -> str:
    """A digest of what an author or a learner wrote: of a notebook, its cells without outputs."""
    if path.suffix != ".ipynb":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    cells = json.loads(path.read_text("utf-8"))["cells"]
    written = [
        (cell["cell_type"], "".join(cell["source"])) for cell in cells
    ]
    return hashlib.sha256(json.dumps(written).encode()).hexdigest()


def refresh(root: Path = ROOT) -> list[Path]:
    """Bring `work/` up to date. Returns the copies that were edited and whose originals have changed since they were made."""
    work, kept = root / "work", []
    record = (
        work / "copies.json"
    )  # what each original was when it was copied
    copied = json.loads(record.read_text()) if record.exists() else {}
    for path in originals(root):
        now, name = content(root / path), str(path)
        exists = (work / path).exists()
        if exists and content(work / path) != copied.get(name):
            kept += [path] if copied.get(name) != now else []
        elif not exists or copied[name] != now:
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, work / path)
            if path.suffix == ".ipynb":
                trust(work / path)
            copied[name] = now
    work.mkdir(exist_ok=True)
    record.write_text(json.dumps(copied, indent=1))
    if (root / "_toc.yml").exists():
        (work / "contents.md").write_text(contents(root), "utf-8")
    return kept


def trust(notebook: Path) -> None:
    """Sign it for this user's JupyterLab, which drops the styles of stored outputs else, and with them the lens's columns."""
    NotebookNotary().sign(nbformat.read(notebook, as_version=4))


def contents(root: Path = ROOT) -> str:
    """The notebooks in reading order, with links."""
    lines = ["# Contents", "Chapters and labs, in reading order."]
    for part in yaml.safe_load((root / "_toc.yml").read_text())["parts"]:
        pages = [
            f"{page['file']}.ipynb"
            for page in part["chapters"]
            if (root / f"{page['file']}.ipynb").exists()
        ]
        if pages:
            listed = [
                f"1. [{title(root / page)}]({page})" for page in pages
            ]
            lines += [f"## {part['caption']}", "\n".join(listed)]
    return "\n\n".join(lines) + "\n"


def title(notebook: Path) -> str:
    """Its first heading."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells)
    return re.search(r"^# (.*)", text, re.MULTILINE)[1]


if __name__ == "__main__":
    for path in refresh():
        print(
            f"work/{path} is yours and stays; the course has a newer one: rename yours to get it"
        )
