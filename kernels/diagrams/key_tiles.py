"""Attention's scores as tiles: which tiles of keys a tile of queries walks over, and which of them it has to mask."""

from kernels.diagrams.canvas import Canvas
from kernels.diagrams.diagram import Diagram, Step

QUERIES, TILE = 256, 32  # queries, of as many keys; rows of a tile, as those of attention.cu for 64 features
WINDOW = 64
BANDS = {"full": (QUERIES, QUERIES), "causal": (QUERIES, 0), f"window of {WINDOW}": (WINDOW - 1, 0)}
"""How many keys before its own place a query sees, and how many after it."""

_LEFT, _ABOVE, _CELL = 92, 46, 38
_KINDS = {"seen by all": "used", "masked": "wasted", "skipped": "idle"}


def kind(first: int, key: int, left: int, right: int) -> str:
    """What a tile of queries from `first` on makes of the tile of keys from `key` on: "seen by all", "masked" or "skipped"."""
    nearest, farthest = key - (first + TILE - 1), key + TILE - 1 - first  # of a key from a query
    if nearest > right or farthest < -left:
        return "skipped"
    return "seen by all" if nearest >= -left and farthest <= right else "masked"


def key_tiles() -> Diagram:
    """Full, causal and sliding-window attention of 256 queries, in tiles of 32 queries by 32 keys."""
    title = f"Scores of {QUERIES} queries and {QUERIES} keys, in tiles of {TILE} × {TILE}"
    return Diagram(title, [_step(name, *band) for name, band in BANDS.items()])


def _step(name: str, left: int, right: int) -> Step:
    starts = range(0, QUERIES, TILE)
    rows = [[kind(first, key, left, right) for key in starts] for first in starts]
    counts = {one: sum(row.count(one) for row in rows) for one in _KINDS}
    visited = sum(counts.values()) - counts["skipped"]
    said = f"{visited} of {sum(counts.values())} tiles are computed, and {counts['skipped']} skipped. "
    said += f"Of those computed {counts['masked']} are masked; the others every query of the tile sees whole."
    return Step(name, said, _canvas(rows, counts))


def _canvas(rows: list[list[str]], counts: dict[str, int]) -> Canvas:
    side = _CELL * len(rows)
    canvas = Canvas(_LEFT + side + 190, _ABOVE + side + 6)
    canvas.text(_LEFT + side / 2, 10, "keys, in tiles", "bold")
    canvas.text(_LEFT - 10, 29, "queries", "bold", "end")
    for at, row in enumerate(rows):
        middle = _ABOVE + _CELL * (at + 0.5)
        canvas.text(_LEFT + _CELL * (at + 0.5), 32, f"{TILE * at}", "small")
        canvas.text(_LEFT - 10, middle, f"{TILE * at} to {TILE * (at + 1) - 1}", "small", "end")
        order = 0
        for column, one in enumerate(row):
            x, y = _LEFT + _CELL * column, _ABOVE + _CELL * at
            canvas.rect(x + 2, y + 2, _CELL - 4, _CELL - 4, _KINDS[one])
            if one != "skipped":
                order += 1
                canvas.text(x + _CELL / 2, y + _CELL / 2, str(order), "bold" if one == "masked" else "")
    legend = ("blue: seen by all", "seen by all"), ("orange, bold: masked", "masked"), ("dashed: skipped", "skipped")
    for number, (words, one) in enumerate(legend):
        top = _ABOVE + 24 + 56 * number
        canvas.text(_LEFT + side + 16, top, words, "bold", "start")
        canvas.text(_LEFT + side + 16, top + 19, f"{counts[one]} tiles", "", "start")
    canvas.text(_LEFT + side + 16, _ABOVE + 208, "the numbers: in which", "small", "start")
    canvas.text(_LEFT + side + 16, _ABOVE + 226, "order they are walked", "small", "start")
    return canvas
