"""Collects the course's own prose, for the language model to be trained on:

    python book/corpus.py > kernels/models/corpus.txt

The file was written once and stays as it is: the weights that were trained on it know its characters. It holds the Markdown of
the chapters, of the solved labs and of the other pages, without markup that is no prose, and the package's docstrings.
"""

import ast
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "book/cuda_on_a_laptop.md",
    "book/glossary.md",
    "book/intro.md",
)
RARE = 12  # a line with a character that the whole text has less often is left out


def pages() -> list[Path]:
    """Chapters in the book's order, then solved labs, then the other pages."""
    listed = re.findall(
        r"book/\w+/\w+", (ROOT / "_toc.yml").read_text("utf-8")
    )
    chapters = [
        path
        for name in dict.fromkeys(listed)
        if (path := ROOT / f"{name}.ipynb").exists()
    ]
    return (
        chapters
        + sorted((ROOT / "labs" / "solutions").glob("*.ipynb"))
        + [ROOT / name for name in PAGES]
    )


def markdown(path: Path) -> str:
    text = path.read_text("utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join(
        "".join(cell["source"])
        for cell in cells
        if cell["cell_type"] == "markdown"
    )


def prose(text: str) -> str:
    """Without HTML tags, the targets of links, labels and directives."""
    text = re.sub(r"^(```|:::|%%|\(.*\)=).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"<!--.*?-->|</?[a-z][^>\n]*>", "", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)\s]*\)", "]", text)
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n\n"


def docstrings() -> str:
    """Those of the package's modules, classes and functions, in the order of its files."""
    trees = (
        ast.parse(path.read_text("utf-8"))
        for path in sorted((ROOT / "kernels").rglob("*.py"))
    )
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    found = (
        ast.get_docstring(node)
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, kinds)
    )
    return "\n\n".join(text for text in found if text) + "\n\n"


def corpus() -> str:
    text = "".join(prose(markdown(path)) for path in pages()) + docstrings()
    rare = {symbol for symbol in set(text) if text.count(symbol) < RARE}
    return "".join(
        line
        for line in text.splitlines(keepends=True)
        if not rare & set(line)
    )


if __name__ == "__main__":
    sys.stdout.buffer.write(corpus().encode("utf-8"))
