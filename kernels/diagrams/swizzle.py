"""A tile of swizzled lines in shared memory: where each vector of 16 bytes lies, and in which banks."""

from kernels.diagrams.canvas import Canvas
from kernels.diagrams.diagram import Diagram, Step
from kernels.hardware import BANK_BYTES, BANKS

LINES, VECTORS, VECTOR_BYTES = 8, 8, 16  # a line has 128 bytes, a word of each bank
_LEFT, _ABOVE, _WIDTH, _HEIGHT = 50, 52, 37, 20


def place(line: int, vector: int) -> int:
    """The place in its line of a vector, as TMA's swizzle of 128 bytes has it."""
    return vector ^ line % LINES


def swizzle(vector: int = 2) -> Diagram:
    """Eight lines of 128 bytes as they are, and swizzled: what reads one vector of each line.

    Raises:
        ValueError: `vector` is none of a line.
    """
    if not 0 <= vector < VECTORS:
        raise ValueError(f"vector: got {vector}, expected 0 to {VECTORS - 1}")
    straight = {(line, one): one for line in range(LINES) for one in range(VECTORS)}
    swizzled = {(line, one): place(line, one) for line, one in straight}
    steps = [_step(*named, vector) for named in (("As in memory", straight), ("Swizzled", swizzled))]
    return Diagram(f"{LINES} lines of {BANKS * BANK_BYTES} bytes in {BANKS} banks of shared memory", steps)


def passes(places: dict[tuple[int, int], int], vector: int) -> int:
    """As many as the busiest banks have vectors to deliver, one of each line."""
    asked = [places[line, vector] for line in range(LINES)]
    return max(map(asked.count, asked))


def _step(label: str, places: dict[tuple[int, int], int], vector: int) -> Step:
    many, vector_banks = passes(places, vector), VECTOR_BYTES // BANK_BYTES
    times = f"{many} pass" + "es" * (many > 1)
    asked = [places[line, vector] for line in range(LINES)]
    firsts = ", ".join(str(vector_banks * one) for one in asked)
    said = f"Vector {vector} of lines 0 to {LINES - 1} begins in bank {firsts}: {times}."
    canvas = Canvas(_LEFT + _WIDTH * VECTORS + 16, _ABOVE + _HEIGHT * LINES + 30)
    canvas.text(_LEFT - 6, 12, "banks", "small", "end")
    canvas.text(_LEFT - 6, 30, "asked", "small", "end")
    for column in range(VECTORS):
        x, count = _LEFT + _WIDTH * (column + 0.5), asked.count(column)
        canvas.text(x, 12, f"{vector_banks * column}–{vector_banks * column + vector_banks - 1}", "small")
        canvas.text(x, 30, f"{count}" if count else "–", "bold" if count > 1 else "small")
    for (line, one), column in places.items():
        x, y = _LEFT + _WIDTH * column, _ABOVE + _HEIGHT * line
        crowded = asked.count(column) > 1
        kind = "plain" if one != vector else "wasted" if crowded else "used"
        canvas.rect(x + 1, y + 1, _WIDTH - 2, _HEIGHT - 2, kind)
        canvas.text(x + _WIDTH / 2, y + _HEIGHT / 2, str(one), "bold" if one == vector else "small")
    for line in range(LINES):
        canvas.text(_LEFT - 6, _ABOVE + _HEIGHT * (line + 0.5), f"line {line}", "small", "end")
    canvas.text(_LEFT, _ABOVE + _HEIGHT * LINES + 16, f"Vector {vector} of each line: {times}", "bold", "start")
    return Step(label, said, canvas)
