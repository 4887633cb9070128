"""Claims, and what became of them here: what is claimed, the experiment, the numbers that it gave, and the verdict.

The numbers stand in `book/results/claims/<hardware>.json`, which `python -m book.recorders.claims` writes by running the
experiments; a record says how they are to be read.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

FOLDER = Path(__file__).parents[1] / "book" / "results" / "claims"
EVIDENCE = ("measured", "exact on a CPU", "simulated", "compiled only", "interpreted only", "detected only")
VERDICTS = ("confirmed", "partly", "refuted", "not yet measured", "not measurable here")


class Number(NamedTuple):
    """One number with its spread: the median of several runs, what most lay between, and its unit, such as "×" or "MiB"."""

    median: float
    low: float
    high: float
    unit: str

    @classmethod
    def exact(cls, value: float, unit: str) -> "Number":
        """What is counted, and has no spread."""
        return cls(value, value, value, unit)

    @classmethod
    def of(cls, values: Sequence[float], unit: str) -> "Number":
        """The median of at least two values, between their quartiles; of three, between the other two."""
        low, median, high = quantiles(values)
        return cls(median, low, high, unit)


@dataclass(frozen=True)
class Claim:
    """What someone claims, and what became of it here.

    Args:
        name: its own among all claims, such as "checkpointing-60-percent".
        text: word for word.
        source: where it is claimed.
        conditions: as claimed there; "none given" is one.
        verdict: one of VERDICTS.
        reason: why this verdict, in a sentence without a number; those are stored.
        evidence: one of EVIDENCE, or None as long as there is none.
        experiment: (device) → numbers by name, on "cpu" or "cuda"; None where there is nothing to run.
        devices: those that the experiment runs on.
        chapter: the page of the book that shows it, as _toc.yml has it, or None.

    ValueError: a verdict or evidence of another name; a verdict that needs more evidence than there is.
    """

    name: str
    text: str
    source: str
    conditions: str
    verdict: str
    reason: str
    evidence: str | None = None
    experiment: Callable[[str], Mapping[str, Number]] | None = None
    devices: tuple[str, ...] = ("cpu", "cuda")
    chapter: str | None = None

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict: got {self.verdict!r}, expected one of {', '.join(VERDICTS)}")
        if self.evidence not in (None, *EVIDENCE):
            raise ValueError(f"evidence: got {self.evidence!r}, expected one of {', '.join(EVIDENCE)}, or None")
        if self.verdict in ("confirmed", "refuted") and self.evidence not in EVIDENCE[:2]:
            raise ValueError(
                f"evidence: got {self.evidence!r}, expected 'measured' or 'exact on a CPU', since the verdict is "
                f"{self.verdict!r}; with less, say 'partly', 'not yet measured' or 'not measurable here'"
            )

    @property
    def numbers(self) -> dict[str, dict[str, Number]]:
        """What the experiment gave, by hardware and by name; empty before it has run."""
        return {
            hardware: every_claim[self.name] for hardware, every_claim in stored().items() if self.name in every_claim
        }


@cache
def stored(folder: Path = FOLDER) -> dict[str, dict[str, dict[str, Number]]]:
    """The stored numbers by hardware, by claim and by name."""
    found: dict[str, dict[str, dict[str, Number]]] = {}
    for path in sorted(folder.glob("*.json")):
        for row in json.loads(path.read_text("utf-8"))["rows"]:
            number = Number(row["median"], row["low"], row["high"], row["unit"])
            found.setdefault(path.stem, {}).setdefault(row["claim"], {})[row["name"]] = number
    return found
