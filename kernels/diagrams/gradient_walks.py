"""Attention's backward over tiles of scores: who walks over which tiles, and who adds to which gradient."""

from kernels.diagrams.canvas import Canvas
from kernels.diagrams.diagram import Diagram, Step

TILES = 4  # of queries, and as many of keys
PRODUCTS = {"dq": 3, "dk and dv": 4, "one walk": 5}
"""Matrix products for a tile of scores: scores and dp in each walk, and one for each gradient that it adds up."""

_LEFT, _ABOVE, _CELL, _OUT = 84, 48, 50, 58


def gradient_walks() -> Diagram:
    """The walk over keys for dq, that over queries for dk and dv, and one walk for all three."""
    alone = f"{TILES} programs, and no two of them write to the same part."
    words = {
        "dq": f"A program has a row of tiles, and walks over the keys. {alone}",
        "dk and dv": f"A program has a column of tiles, and walks over the queries. {alone}",
        "one walk": f"A program has a column of tiles. Its dk and dv are its own, and to dq it adds what each tile gives: "
        f"{TILES} programs add to every part of dq, in whatever order they come.",
    }
    steps = [
        Step(name, f"{said} {PRODUCTS[name]} products for each tile.", _canvas(name)) for name, said in words.items()
    ]
    return Diagram(f"Gradients from {TILES} × {TILES} tiles of scores", steps)


def _canvas(name: str) -> Canvas:
    side = _CELL * TILES
    canvas = Canvas(_LEFT + side + 36 + _OUT + 4, _ABOVE + side + 40)
    canvas.text(_LEFT + side / 2, 10, "keys", "bold")
    canvas.text(_LEFT - 12, 30, "queries", "bold", "end")
    to_dq, to_dkdv = name != "dk and dv", name != "dq"
    for one in range(TILES):
        middle = _CELL * (one + 0.5)
        canvas.text(_LEFT + middle, 32, f"tile {one}", "small")
        canvas.text(_LEFT - 12, _ABOVE + middle, f"tile {one}", "small", "end")
        for other in range(TILES):
            x, y = _LEFT + _CELL * other, _ABOVE + _CELL * one
            own = (one if name == "dq" else other) == 1
            canvas.rect(x + 3, y + 3, _CELL - 6, _CELL - 6, "used" if own else "plain")
            order = other if name == "dq" else one
            canvas.text(x + _CELL / 2, y + _CELL / 2, str(order + 1), "bold" if own else "")
        if to_dq:
            shared = name == "one walk"
            canvas.arrow(_LEFT + side + 4, _ABOVE + middle, _LEFT + side + 30, _ABOVE + middle)
            kind = "wasted" if shared else "used" if one == 1 else "plain"
            canvas.rect(_LEFT + side + 34, _ABOVE + _CELL * one + 8, _OUT, _CELL - 16, kind)
            words = f"dq: {TILES} add" if shared else f"dq {one}"
            canvas.text(_LEFT + side + 34 + _OUT / 2, _ABOVE + middle, words, "small")
        if to_dkdv:
            bottom = _ABOVE + side
            canvas.arrow(_LEFT + middle, bottom + 1, _LEFT + middle, bottom + 13)
            canvas.rect(_LEFT + _CELL * one + 2, bottom + 14, _CELL - 4, 22, "used" if one == 1 else "plain")
            canvas.text(_LEFT + middle, bottom + 25, "dk, dv", "small")
    return canvas
