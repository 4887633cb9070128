"""The tables of systems and of claims, from their records: ```` ```{systems} ```` and ```` ```{claims} ````."""

import json
import sys
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
            claims = ", ".join(claim.name for claim in record.claims) or "–"
            cells = [record.summary, record.proof, ", ".join(record.wrong), ", ".join(record.from_torch) or "–", claims]
            cells += worked.get(name, ("–", "–"))
            rows.append([nodes.literal(text=name), *cells])
        columns = [
            "System",
            "What it does",
            "Held against",
            "Rejected twins",
            "Still PyTorch’s own",
            "Claims",
            "Passed on",
            "Its demo said there",
        ]
        return [grid(columns, rows, "sortable systems")]


def seen_at_work() -> dict[str, tuple[str, str]]:
    """By system, the hardware on which its check passed when it was last recorded there, and what its demo measured there."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(WORKED.glob("*.json")):
        for row in json.loads(path.read_text("utf-8"))["rows"]:
            if row["failure"] is None:
                found.setdefault(row["system"], {})[path.stem] = row["measured"]
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
            numbers = [f"{hardware}: {said(of)}" for hardware, of in claim.numbers.items()]
            cells = [claim.source, claim.conditions, "; ".join(numbers) or "–", claim.evidence or "–", claim.reason]
            rows.append([claim.text, nodes.strong(text=claim.verdict), *cells])
        columns = ["Claim", "Verdict", "Claimed by", "Conditions", "Numbers", "Evidence", "Reason"]
        return [grid(columns, rows, "sortable claims")]


def said(numbers: dict[str, Number]) -> str:
    """Every number with its spread, where there is one."""
    return ", ".join(
        f"{name} {one.median:.3g} {one.unit}" + (f" ({one.low:.3g} to {one.high:.3g})" if one.low != one.high else "")
        for name, one in numbers.items()
    )


def setup(app):
    app.add_directive("systems", Systems)
    app.add_directive("claims", Claims)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
