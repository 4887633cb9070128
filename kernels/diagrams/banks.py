"""A tile of floats in the 32 banks of shared memory, and the passes that a warp's accesses of it take."""

from collections import defaultdict

from kernels.diagrams.canvas import Canvas
from kernels.diagrams.diagram import Diagram, Step
from kernels.hardware import BANKS, WARP
from kernels.lens import Request

_LEFT, _CELL, _ROW, _ABOVE = 48, 18, 14, 44
FLOAT = 4


def banks(padding: int = 0) -> Diagram:
    """`float tile[32][32 + padding]` in shared memory: which word is in which bank, and what a warp reads and writes.

    A word of 4 bytes is in bank (its address in words) mod 32. As many passes are needed as the busiest bank has words to
    deliver, which is what the lens counts as wavefronts.

    Raises:
        ValueError: `padding` is negative.
    """
    if padding < 0:
        raise ValueError(f"padding: got {padding}, expected 0 floats at the end of a row, or more")
    width = WARP + padding
    accesses = {
        ("Read column 0", "tile[lane][0]"): [lane * width for lane in range(WARP)],
        ("Read column 5", "tile[lane][5]"): [lane * width + 5 for lane in range(WARP)],
        ("Write row 5", "tile[5][lane]"): [5 * width + lane for lane in range(WARP)],
    }
    steps = []
    for (label, named), words in accesses.items():
        request = Request((0, 0, 0), 0, "tile", FLOAT, 0, tuple(range(WARP)), tuple(FLOAT * word for word in words))
        steps.append(_step(label, named, request, width))
    return Diagram(f"float tile[{WARP}][{width}] in {BANKS} banks of shared memory", steps)


def passes(request: Request) -> int:
    """How many words the busiest bank has to deliver, one a pass, of accesses of 4 bytes."""
    return max(map(len, _words(request).values()))


def _words(request: Request) -> dict[int, set[int]]:
    """By bank, the words that some lane names."""
    words = defaultdict(set)
    for offset in request.offsets:
        words[offset // FLOAT % BANKS].add(offset // FLOAT)
    return words


def _step(label: str, named: str, request: Request, width: int) -> Step:
    busy = _words(request)
    most = passes(request)
    times = f"{most} pass" + "es" * (most > 1)
    meant = f"banks {min(busy)} to {max(busy)}" if len(busy) > 1 else f"bank {min(busy)}"
    ones = "one word" if most == 1 else f"{most} words" if len(busy) == 1 else f"up to {most} words"
    said = f"With {named} the {WARP} lanes name words of {len(busy)} bank{'s' * (len(busy) > 1)}, {meant}: "
    said += f"{ones}{' each' * (len(busy) > 1)}, so {times}."

    lane_of = {offset // FLOAT: lane for lane, offset in zip(request.lanes, request.offsets, strict=True)}
    rows = -(-WARP * width // BANKS)
    canvas = Canvas(640, _ABOVE + _ROW * rows + 34)
    canvas.text(_LEFT - 8, 12, "bank", "small", "end")
    canvas.text(_LEFT - 8, 30, "words", "small", "end")
    for bank in range(BANKS):
        x = _LEFT + _CELL * (bank + 0.5)
        count = len(busy.get(bank, ()))
        canvas.text(x, 12, str(bank), "small")
        canvas.text(x, 30, str(count) if count else "–", "bold" if count > 1 else "small")
    right, under = _LEFT + _CELL * BANKS, _ABOVE + _ROW * rows
    grid = [(_LEFT + _CELL * bank, _ABOVE, _LEFT + _CELL * bank, under) for bank in range(BANKS + 1)]
    grid += [(_LEFT, _ABOVE + _ROW * row, right, _ABOVE + _ROW * row) for row in range(rows + 1)]
    canvas.lines(grid, "faint")
    padded = []
    for word in range(WARP * width):
        column = word % width
        x, y = _LEFT + _CELL * (word % BANKS), _ABOVE + _ROW * (word // BANKS)
        if word in lane_of:
            crowded = len(busy[word % BANKS]) > 1
            canvas.rect(x + 1, y + 0.5, _CELL - 2, _ROW - 1, "wasted" if crowded else "used")
            canvas.text(x + _CELL / 2, y + _ROW / 2, str(lane_of[word]), "small")
        elif column >= WARP:
            padded.append((x + 4, y + _ROW - 3, x + _CELL - 4, y + 3))
    canvas.lines(padded)
    below = _ABOVE + _ROW * rows + 18
    canvas.text(_LEFT, below, f"{label}: {times}", "bold", "start")
    canvas.text(
        640 - 16, below, "in a cell: the lane that names the word" + ";  /: padding" * (width > WARP), "small", "end"
    )
    return Step(label, said, canvas)
