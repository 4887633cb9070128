"""A query's keys in parts: what each part leaves, and how a second kernel makes one of them, in order."""

from itertools import accumulate
from math import exp

from kernels.diagrams.canvas import Canvas
from kernels.diagrams.diagram import Diagram, Step
from kernels.diagrams.parts import merge

SCORES = ((1.0, 3.0, 2.0, 0.0), (5.0, 4.0, 1.0, 2.0), (0.0, 2.0, 1.0, 1.0), (3.0, 3.0, 4.0, 0.0))
PARTS = tuple(merge([(score, 1.0) for score in part]) for part in SCORES)
LARGEST = max(largest for largest, _ in PARTS)
FACTORS = tuple(exp(largest - LARGEST) for largest, _ in PARTS)
SUMS = tuple(accumulate(factor * total for factor, (_, total) in zip(FACTORS, PARTS, strict=True)))

_LEFT, _WIDE, _ROW, _HEIGHT = 92, 104, 58, 32


def joined_parts() -> Diagram:
    """Sixteen keys in four parts: their largest scores and sums, the factors, and the sum as it grows."""
    parts = "; ".join(f"{largest:g} and {total:.2f}" for largest, total in PARTS)
    factors = ", ".join(f"{one:.2f}" for one in FACTORS)
    words = {
        "parts": f"Largest score and sum of each part, which a block leaves: {parts}.",
        "factors": f"The largest of all is {LARGEST:g}. What each part is multiplied by: {factors}.",
        "joined": f"Added up from left to right: {', '.join(f'{one:.2f}' for one in SUMS)}. Values are added up by the same "
        f"factors, and divided by {SUMS[-1]:.2f} at the end.",
    }
    steps = [Step(label, said, _canvas(number)) for number, (label, said) in enumerate(words.items(), 1)]
    return Diagram(f"{len(SCORES)} parts of {sum(map(len, SCORES))} keys", steps)


def _canvas(now: int) -> Canvas:
    rows = {
        "scores": [" ".join(f"{score:g}" for score in part) for part in SCORES],
        "max | sum": [f"{largest:g} | {total:.2f}" for largest, total in PARTS],
        "factor": [f"{one:.2f}" for one in FACTORS],
        "sum so far": [f"{one:.2f}" for one in SUMS],
    }
    canvas = Canvas(_LEFT + _WIDE * len(SCORES), _ROW * (len(rows) - 1) + _HEIGHT + 4)
    for number, (label, cells) in enumerate(rows.items()):
        y = 2 + _ROW * number
        canvas.text(_LEFT - 10, y + _HEIGHT / 2, label, "bold" if number == now else "", "end")
        for at, words in enumerate(cells):
            x = _LEFT + _WIDE * at
            kind = "idle" if number > now else "used" if number == now else "plain"
            canvas.rect(x + 6, y, _WIDE - 12, _HEIGHT, kind)
            if number > now:
                continue
            canvas.text(x + _WIDE / 2, y + _HEIGHT / 2, words, "small")
            if number:
                canvas.arrow(
                    x + _WIDE / 2, y - _ROW + _HEIGHT + 2, x + _WIDE / 2, y - 2, "soft" if number < now else "plain"
                )
            if number == len(rows) - 1 and at:
                canvas.arrow(x - 6, y + _HEIGHT / 2, x + 6, y + _HEIGHT / 2)
    return canvas
