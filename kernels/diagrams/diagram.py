"""A drawing that a notebook shows: inline SVG in the book and in JupyterLab, and words wherever there is no picture."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from itertools import count
from pathlib import Path

from kernels.diagrams.canvas import Canvas

_number = count(1)
_PAGE, _PHONE = 560, 360  # units of a drawing: below the one it does not fill a page, up to the other it fits a phone


@dataclass(frozen=True)
class Step:
    """label: of its button. words: what the drawing shows, with its numbers."""

    label: str
    words: str
    canvas: Canvas


@dataclass(frozen=True, repr=False)
class Diagram:
    """A drawing of one step or several, which the reader goes through. As the last value of a notebook's cell it shows
    itself; `repr` is its text alternative, and so what the tests of a notebook compare.

    No script is needed: the steps are radio buttons, which the arrow keys move, and CSS shows the one that is chosen. Where
    CSS does not, all steps stand below each other. JupyterLab leaves those keys to them, by the attribute of the fieldset.
    """

    title: str
    steps: Sequence[Step]
    identifier: str = field(default_factory=lambda: f"diagram-{next(_number)}")  # two on a page differ

    def __repr__(self) -> str:
        if len(self.steps) == 1:
            return f"{self.title}. {self.steps[0].words}"
        return "\n".join([f"{self.title}."] + [f"{step.label}: {step.words}" for step in self.steps])

    def _repr_html_(self) -> str:
        figure = f'<figure class="diagram" id="{self.identifier}"><style>{_style()}</style>'
        return figure + self._choice() + "".join(map(self._shown, range(len(self.steps)))) + "</figure>"

    def _choice(self) -> str:
        if len(self.steps) == 1:
            return ""
        buttons = "".join(
            f'<label><input type="radio" name="{self.identifier}"{" checked" * (not number)}>'
            f"<span>{escape(step.label)}</span></label>"
            for number, step in enumerate(self.steps)
        )
        legend = f"<legend>{escape(self.title)}: steps</legend>"
        return f'<fieldset data-lm-suppress-shortcuts="true">{legend}{buttons}</fieldset>'

    def _shown(self, number: int) -> str:
        step, own = self.steps[number], f"{self.identifier}-{number + 1}"
        view = f"0 0 {step.canvas.width:g} {step.canvas.height:g}"
        words = f"<p>{escape(step.words)}</p>" if len(self.steps) > 1 else ""
        width = step.canvas.width
        scrolls = (
            f' class="drawn" tabindex="0" role="group" aria-label="{escape(self.title)}"' if width > _PHONE else ""
        )
        least = 0.85 * width if scrolls else 0
        size = f' style="min-width: {least:g}px; max-width: {width:g}px"' if width < _PAGE else ""
        return (
            f'<div class="step"><div{scrolls}>'
            f'<svg role="img" text-anchor="middle" aria-labelledby="{own}-title {own}-words" viewBox="{view}"{size}>'
            f'<title id="{own}-title">{escape(self.title)}</title><desc id="{own}-words">{escape(step.words)}</desc>'
            f"{''.join(step.canvas.elements)}</svg></div>{words}</div>"
        )


@cache
def _style() -> str:
    """diagram.css in one line: a blank line would end the HTML in Markdown."""
    return " ".join((Path(__file__).parent / "diagram.css").read_text("utf-8").split())
