"""What the judge found, for a notebook, a terminal and another process."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Literal

from rich.console import Group
from rich.text import Text

from kernels.page_colors import STYLE

_MARKS = {"held": ("✓", "good"), "broken": ("✗", "bad"), "waits": ("–", "faint"), "open": ("–", "faint")}
_COUNTED = "counted in the first case"


@dataclass(frozen=True)
class Verdict:
    """On one property. message: what is wrong. "waits": it is judged when properties of earlier stages hold. "open": it is
    judged on other machines."""

    property: str
    state: Literal["held", "broken", "waits", "open"]
    message: str = ""
    hint: str = ""

    @property
    def aside(self) -> str:
        """Why it is not judged, to stand behind its name."""
        return f" ({self.message})" if self.state in ("waits", "open") and self.message else ""


@dataclass(frozen=True)
class Report:
    """On one submission. refused: why it could not be tried, such as the compiler's words, and `headed`, the same in a few.
    printed: what it wrote. Where it passes, counters: (which, its own, our solution's); following: the next exercise of the
    lab, or the notebook of the next lab."""

    exercise: str
    verdicts: tuple[Verdict, ...] = ()
    refused: str = ""
    headed: str = "not tried yet"
    printed: str = ""
    counters: tuple[tuple[str, int, int], ...] = ()
    following: str = ""

    @property
    def passed(self) -> bool:
        return not self.refused and bool(self.verdicts) and all(one.state in ("held", "open") for one in self.verdicts)

    @property
    def broken(self) -> tuple[str, ...]:
        """The names of the properties that do not hold."""
        return tuple(one.property for one in self.verdicts if one.state == "broken")

    @property
    def score(self) -> tuple[int, int]:
        """How many properties hold as far as this machine can judge, and of how many."""
        return sum(one.state in ("held", "open") for one in self.verdicts), len(self.verdicts)

    @property
    def summary(self) -> str:
        if self.refused:
            return f"{self.exercise}: {self.headed}"
        held = sum(one.state == "held" for one in self.verdicts)
        return f"{self.exercise}: " + ("solved" if self.passed else f"{held} of {len(self.verdicts)} hold")

    def __repr__(self) -> str:
        lines = [self.summary, *self.refused.splitlines()]
        for one in self.verdicts:
            lines.append(f"{_MARKS[one.state][0]} {one.property}{one.aside}")
            lines += [f"    {line}" for line in one.message.splitlines() if not one.aside]
            lines += [f"    hint: {one.hint}"] if one.hint else []
        lines += ["it printed:", *self.printed.splitlines()] if self.printed else []
        if self.counters:
            lines.append(f"{_COUNTED:<33} {'yours':>9} {'our solution':>13}")
            lines += [f"{name:<33} {yours:>9,} {ours:>13,}" for name, yours, ours in self.counters]
        lines += [f"next: {self.following}"] if self.following else []
        return "\n".join(lines)

    def __rich__(self) -> Group:
        styles = {"✓": "green", "✗": "bold red", "–": "dim"}
        return Group(*(Text(line, style=styles.get(line[:1], "")) for line in repr(self).splitlines()))

    def _repr_html_(self) -> str:
        """What it needs to be read stands at its elements: of a notebook that is not trusted yet, JupyterLab drops STYLE."""
        parts = [f"<div><b>{escape(self.summary)}</b></div>"]
        if self.refused:
            parts.append(f'<pre style="white-space:pre-wrap">{escape(self.refused)}</pre>')
        for one in self.verdicts:
            mark, color = _MARKS[one.state]
            name = escape(one.property)
            parts.append(
                f'<div class="{one.state}" style="margin:3px 0 3px 1.4em;text-indent:-1.4em">'
                f'<span class="{color}" role="img" aria-label="{one.state}">{mark}</span> '
                f"{f'<b>{name}</b>' if one.state == 'broken' else name}{escape(one.aside)}</div>"
            )
            if one.state == "broken":
                hint = f"<details><summary>Hint</summary>{escape(one.hint)}</details>" if one.hint else ""
                parts.append(f'<div style="margin:0 0 6px 1.4em">{_lines(one.message)}{hint}</div>')
        if self.printed:
            parts.append(f'<div>It printed:</div><pre style="white-space:pre-wrap">{escape(self.printed)}</pre>')
        parts += [self._success()] if self.passed else []
        return f'{STYLE}<div class="report on-page">{"".join(parts)}</div>'

    def _success(self) -> str:
        """The counters beside our solution's, and a link to what comes next."""
        rows = [f"<tr><th>{_COUNTED}</th><th>yours</th><th>our solution</th></tr>"]
        rows += [f"<tr><td>{name}</td><td>{yours:,}</td><td>{ours:,}</td></tr>" for name, yours, ours in self.counters]
        table = f"<table>{''.join(rows)}</table>" if self.counters else ""
        where = escape(self.following)
        link = f'<a href="{where}">{where.removesuffix(".ipynb")}</a>' if where.endswith(".ipynb") else where
        return f'<div class="success">{table}{f"<div>Next: {link}</div>" if where else ""}</div>'

    @classmethod
    def from_dict(cls, data: dict) -> Report:
        """From what `dataclasses.asdict` made of one, after JSON."""
        verdicts = tuple(Verdict(**one) for one in data["verdicts"])
        return cls(**{**data, "verdicts": verdicts, "counters": tuple(map(tuple, data["counters"]))})


def _lines(text: str) -> str:
    return "<br>".join(map(escape, text.splitlines()))
