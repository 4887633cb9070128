"""The parts of a chapter, read from its notebook: what the book's header says and what the tests hold it to.

CONTRIBUTING.md, "A chapter in a page", says what a chapter is made of.
"""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ("application/vnd.plotly.v1+json", "image/svg+xml")
CHOICE = re.compile(
    r'<details class="choice( right)?"><summary>(.*?)</summary>(.*?)</details>',
    re.DOTALL,
)
ASKS = re.compile(r"^\*\*(Predict|Question \d+)\.\*\*", re.MULTILINE)
WORDS_A_MINUTE = 200


@dataclass(frozen=True)
class Choice:
    text: str
    right: bool
    explanation: str

    @property
    def letter(self) -> str:
        return self.text[:1]

    @property
    def length(self) -> int:
        """Of what a reader sees of it."""
        return len(re.sub(r"<[^>]*>", "", self.text))


@dataclass(frozen=True)
class Question:
    """A prediction, or a question at the end."""

    name: str
    choices: tuple[Choice, ...]

    @property
    def right(self) -> str:
        """The letters of the right choices."""
        return "".join(
            choice.letter for choice in self.choices if choice.right
        )


def source(cell: dict) -> str:
    return "".join(cell["source"])


def tags(cell: dict) -> set[str]:
    return set(cell["metadata"].get("tags", ()))


def has_figure(cell: dict) -> bool:
    shown = [output.get("data", {}) for output in cell.get("outputs", ())]
    return any(
        set(FIGURES) & set(data)
        or 'class="diagram"' in "".join(data.get("text/html", ""))
        for data in shown
    )


def prose(text: str) -> str:
    """Markdown without what is folded, and without the words of code blocks, formulas and addresses of links."""
    text = re.sub(
        r"<details.*?</details>|```.*?```|\$\$.*?\$\$",
        " ",
        text,
        flags=re.DOTALL,
    )
    return re.sub(r"\]\([^)]*\)", "]", text)


@dataclass(frozen=True)
class Chapter:
    """A chapter or a lab, by its file."""

    path: Path

    @cached_property
    def notebook(self) -> dict:
        return json.loads(self.path.read_text("utf-8"))

    @property
    def about(self) -> dict:
        """What it `teaches`, what it `needs` and the `lab` that follows it."""
        return self.notebook["metadata"].get("course", {})

    @cached_property
    def cells(self) -> list[dict]:
        """All that a reader sees: not those that exist for the tests."""
        return [
            cell
            for cell in self.notebook["cells"]
            if "remove-cell" not in tags(cell)
        ]

    @property
    def markdown(self) -> list[str]:
        return [
            source(cell)
            for cell in self.cells
            if cell["cell_type"] == "markdown"
        ]

    @property
    def code(self) -> list[dict]:
        """Cells whose code is seen."""
        return [
            cell
            for cell in self.cells
            if cell["cell_type"] == "code"
            and "hide-input" not in tags(cell)
        ]

    @property
    def title(self) -> str:
        return re.search(r"^# (.*)", self.markdown[0], re.MULTILINE)[1]

    @property
    def short(self) -> str:
        """The title up to its colon; but what follows it where that names no subject, as in "Lab: a permuted copy"."""
        before, _, after = self.title.partition(": ")
        named = (
            after if re.fullmatch(r"Lab|Start|Level \d", before) else before
        )
        return (named[:1].upper() + named[1:]).split(",")[0]

    @property
    def words(self) -> int:
        return sum(
            len(re.findall(r"[\w'’-]*\w[\w'’-]*", prose(text)))
            for text in self.markdown
        )

    @cached_property
    def questions(self) -> list[Question]:
        found = []
        for text in self.markdown:
            _, *parts = ASKS.split(
                text
            )  # in turn what asks, and what follows
            for name, part in zip(parts[::2], parts[1::2], strict=True):
                choices = (
                    Choice(said.strip(), bool(right), why.strip())
                    for right, said, why in CHOICE.findall(part)
                )
                found.append(Question(name, tuple(choices)))
        return found

    @property
    def edits(self) -> int:
        return sum("edit" in tags(cell) for cell in self.cells)

    @property
    def minutes(self) -> int:
        """To read it, to run its cells, to predict and to edit; or what the author of a lab found that it takes."""
        predictions = sum(
            question.name == "Predict" for question in self.questions
        )
        computed = (
            self.words / WORDS_A_MINUTE
            + len(self.code)
            + predictions
            + 3 * self.edits
        )
        return self.about.get("minutes") or max(1, round(computed))


def reading_order() -> list[tuple[str, list[str]]]:
    """The parts of _toc.yml: each one's caption and its pages, in order."""

    def files(entries: list[dict]):
        for entry in entries:
            yield entry["file"]
            yield from files(entry.get("sections", []))

    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    return [
        (part["caption"], list(files(part["chapters"])))
        for part in toc["parts"]
    ]


def chapters() -> dict[str, Chapter]:
    """Every notebook of the book by its page, in reading order."""
    pages = [page for _, pages in reading_order() for page in pages]
    return {
        page: Chapter(path)
        for page in pages
        if (path := ROOT / f"{page}.ipynb").exists()
    }


def routes() -> list[dict]:
    """Who each is `for`, `why`, and its `pages`; the first is the spine."""
    return yaml.safe_load((ROOT / "book" / "routes.yml").read_text("utf-8"))


def spine() -> set[str]:
    return set(routes()[0]["pages"])
