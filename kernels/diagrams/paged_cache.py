"""A cache in pages: which page of memory a sequence's table names for which of its keys."""

from kernels.diagrams.canvas import Canvas
from kernels.diagrams.diagram import Diagram, Step

SIZE, PAGES = 4, 8  # keys of a page, and pages in memory
BEFORE = {0: ((5, 1, 6), 10), 1: ((3, 0), 7)}
AFTER = BEFORE | {1: ((3, 0, 7), 9)}
"""Of each sequence its table and how many keys it has; then with two tokens more of sequence 1."""

_LEFT, _CELL, _GAP, _ROW, _TABLE, _ACROSS = 8, 24, 20, 64, 34, 4


def place(table: tuple[int, ...], key: int) -> tuple[int, int]:
    """The page of a key, and its row there."""
    return table[key // SIZE], key % SIZE


def paged_cache() -> Diagram:
    """Two sequences with pages here and there, and what two more tokens change."""
    steps = []
    for label, sequence, held in (("sequence 0", 0, BEFORE), ("sequence 1", 1, BEFORE), ("two tokens more", 1, AFTER)):
        table, length = held[sequence]
        page, row = place(table, length - 1)
        said = f"Sequence {sequence} has {length} keys in pages {', '.join(map(str, table))}. "
        said += f"Its last, key {length - 1}, is row {row} of page {page}. "
        spare = len(table) * SIZE - length
        said += f"{spare} row{'s' * (spare != 1)} of its last page {'are' if spare != 1 else 'is'} free."
        if held is AFTER:
            said += " Key 8 came to a new page, and no other key moved."
        steps.append(Step(label, said, _canvas(sequence, held)))
    return Diagram(f"A page table, and {PAGES} pages of {SIZE} keys", steps)


def _canvas(sequence: int, held: dict[int, tuple[tuple[int, ...], int]]) -> Canvas:
    wide = SIZE * _CELL + _GAP
    canvas = Canvas(_LEFT + _ACROSS * wide, 116 + PAGES // _ACROSS * _ROW)
    owners = {
        place(table, key): (one, key) for one, (table, length) in held.items() for key in range(length)
    }  # of rows of pages
    table, _ = held[sequence]
    canvas.text(_LEFT, 10, f"page table of sequence {sequence}", "bold", "start")
    for number, page in enumerate(table):
        x = _LEFT + number * 2 * _TABLE
        canvas.rect(x, 22, 2 * _TABLE - 6, 26, "used")
        canvas.text(x + _TABLE - 3, 35, f"page {page}", "small")
    for page in range(PAGES):
        x, y = _LEFT + page % _ACROSS * wide, 108 + page // _ACROSS * _ROW
        canvas.text(x, y, f"page {page}", "small", "start")
        for row in range(SIZE):
            owner = owners.get((page, row))
            kind = "idle" if owner is None else "used" if owner[0] == sequence else "plain"
            canvas.rect(x + _CELL * row, y + 12, _CELL, 28, kind)
            if owner:
                canvas.text(x + _CELL * (row + 0.5), y + 26, str(owner[1]), "bold" if owner[0] == sequence else "small")
    for number, page in enumerate(table):
        x, y = _LEFT + page % _ACROSS * wide + 60, 100 + page // _ACROSS * _ROW
        canvas.arrow(_LEFT + number * 2 * _TABLE + _TABLE - 3, 50, x, y, "strong" if number == 0 else "plain")
    return canvas
