"""The tables of systems and of claims, from their records: ```` ```{systems} ```` and ```` ```{claims} ````."""

import json
import sys
from collections.abc import Iterable
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the package beside this book, not one that is installed

from kernels import systems
from kernels.claims import FOLDER, Number

from measured import grid

WORKED = FOLDER.parent / "systems"


class Systems(SphinxDirective):
    def run(self):
        for path in WORKED.glob("*.json"):
            self.env.note_dependency(str(path))
        worked = seen_at_work()
        rows = []
        for name in systems.systems():
            record = systems.system(name)
            passed, demo = worked.get(name, ("–", ""))
            said = [
                named("Held against", record.proof),
                named("Twins rejected", ", ".join(record.wrong)),
                named("Still PyTorch’s own", ", ".join(record.from_torch)),
                named("Claims", "; ".join(f"“{claim.text}”: {claim.verdict}" for claim in record.claims)),
                named("Its demo measured", demo),
            ]
            what = [
                nodes.paragraph(text=sentence(record.summary)),
                *folded("Proof and measurements", filter(None, said)),
            ]
            rows.append([nodes.literal(text=name), what, passed])
        return [grid(["System", "What it does", "Passed on"], rows, "sortable systems")]


def sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def folded(summary: str, inner: Iterable[nodes.Node]) -> list[nodes.Node]:
    begin = f"<details><summary>{escape(summary)}</summary>"
    return [nodes.raw("", begin, format="html"), *inner, nodes.raw("", "</details>", format="html")]


def named(name: str, text: str) -> nodes.paragraph | None:
    return nodes.paragraph("", "", nodes.strong(text=name), nodes.Text(f": {text}")) if text else None


def seen_at_work() -> dict[str, tuple[str, str]]:
    """By system, the hardware on which its check passed when it was last recorded there, and what its demo measured there."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(WORKED.glob("*.json")):
        for row in json.loads(path.read_text("utf-8"))["rows"]:
            if row["failure"] is None:
                found.setdefault(row["system"], {})[path.stem.upper()] = row["measured"]
    return {
        system: (", ".join(on), "; ".join(f"{hardware}: {said}" for hardware, said in on.items()))
        for system, on in found.items()
    }


class Claims(SphinxDirective):
    def run(self):
        for path in FOLDER.glob("*.json"):
            self.env.note_dependency(str(path))
        rows = []
        for claim in systems.claims():
            conditions = "" if claim.conditions == "none given" else f"; {claim.conditions}"
            source = nodes.paragraph("", f"{claim.source}{conditions}", classes=["source"])
            why = [
                nodes.paragraph(text=sentence(claim.reason)),
                named("Evidence", claim.evidence),
                folded_numbers(claim.numbers),
            ]
            rows.append([[nodes.paragraph(text=claim.text), source], claim.verdict, list(filter(None, why))])
        return [grid(["Claim", "Verdict", "Why"], rows, "sortable claims")]


def folded_numbers(numbers: dict[str, dict[str, Number]]) -> nodes.raw | None:
    """Every number by hardware, with its spread, where there is one."""
    parts = [f"<p>{hardware.upper()}</p><ul>{''.join(map(item, of.items()))}</ul>" for hardware, of in numbers.items()]
    if not parts:
        return None
    measured = f"{sum(map(len, numbers.values()))} numbers: {', '.join(numbers).upper()}"
    return nodes.raw("", f"<details><summary>{measured}</summary>{''.join(parts)}</details>", format="html")


def item(named: tuple[str, Number]) -> str:
    name, one = named
    spread = f" ({short(one.low)} to {short(one.high)})" if one.low != one.high else ""
    return f"<li>{escape(name)}: {short(one.median)} {escape(one.unit)}{spread}</li>"


def short(number: float) -> str:
    """Three digits that count, such as 0.123 and 1,250."""
    return f"{float(f'{number:.3g}'):,g}"


def setup(app):
    app.add_directive("systems", Systems)
    app.add_directive("claims", Claims)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
