"""How Triton spreads a block of a tensor over the threads of a program and their registers."""

import math
import re

from kernels.diagrams.canvas import Canvas
from kernels.diagrams.diagram import Diagram, Step

LAYOUT = "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>"
_LEFT, _WIDTH, _ROW, _ABOVE = 76, 548, 30, 40


def triton_block(layout: str = LAYOUT) -> Diagram:
    """The elements of a two-dimensional block that each thread holds, as a blocked layout of Triton's IR says it.

    layout: as `kernel.asm["ttgir"]` prints it. The block drawn is as large as the layout reaches before it repeats.

    Raises:
        ValueError: `layout` is not a blocked layout of two dimensions.
    """
    per_thread, threads, warps, order = (_numbers(layout, name) for name in _NAMES)
    rows, columns = (a * b * c for a, b, c in zip(per_thread, threads, warps, strict=True))
    count, total = math.prod(threads), math.prod(threads) * math.prod(warps)
    each = math.prod(per_thread)
    warp_shape = [a * b for a, b in zip(per_thread, threads, strict=True)]
    said = (
        (
            "Thread 0",
            f"Thread 0 holds {each} elements, in {each} registers: {_span(per_thread)}. Neighbouring threads continue "
            f"along {'the row' if order[0] == 1 else 'the column'}.",
            0,
        ),
        (
            "Warp 0",
            f"The {count} threads of warp 0 hold {_span(warp_shape)}.",
            count - 1,
        ),
        ("All warps", f"{math.prod(warps)} warps, {total} threads, hold the block of {rows} × {columns}.", total - 1),
    )
    steps = [Step(label, words, _canvas(layout, last)) for label, words, last in said]
    return Diagram(f"A block of {rows} × {columns} over {total} threads, laid out as {layout}", steps)


_NAMES = ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")


def _numbers(layout: str, name: str) -> list[int]:
    found = re.search(rf"#ttg\.blocked<.*\b{name} = \[(\d+), (\d+)\]", layout)
    if not found:
        raise ValueError(f"layout: got {layout!r}, expected one of two dimensions, such as {LAYOUT}")
    return [int(number) for number in found.groups()]


def owner(layout: str, row: int, column: int) -> int:
    """The thread, counted over all warps, that holds an element."""
    per_thread, threads, warps, order = (_numbers(layout, name) for name in _NAMES)
    at = [place // own for place, own in zip((row, column), per_thread, strict=True)]
    lanes = [place % many for place, many in zip(at, threads, strict=True)]
    warp_at = [place // many % more for place, many, more in zip(at, threads, warps, strict=True)]
    fast, slow = order
    lane = lanes[fast] + threads[fast] * lanes[slow]
    return lane + math.prod(threads) * (warp_at[fast] + warps[fast] * warp_at[slow])


def _span(shape: list[int]) -> str:
    rows, columns = shape
    row_words = "row 0" if rows == 1 else f"rows 0 to {rows - 1}"
    return f"{row_words}, columns 0 to {columns - 1}" if columns > 1 else f"{row_words}, column 0"


def _canvas(layout: str, last: int) -> Canvas:
    """last: the threads up to this one are marked."""
    per_thread, threads, warps, _ = (_numbers(layout, name) for name in _NAMES)
    down, across = (b * c for b, c in zip(threads, warps, strict=True))
    width, high = _WIDTH / across, _ROW * per_thread[0]
    canvas = Canvas(640, _ABOVE + high * down + 30)
    canvas.text(_LEFT - 10, 26, "column", "small", "end")
    for j in range(across):
        canvas.text(_LEFT + width * j + 3, 26, str(j * per_thread[1]), "small", "start")
    ticks = []
    for i in range(down):
        canvas.text(_LEFT - 10, _ABOVE + high * (i + 0.5), f"row {i * per_thread[0]}", "small", "end")
        for j in range(across):
            thread = owner(layout, i * per_thread[0], j * per_thread[1])
            x, y = _LEFT + width * j, _ABOVE + high * i
            canvas.rect(x + 1, y + 1, width - 2, high - 3, "used" if thread <= last else "plain")
            canvas.text(x + width / 2, y + high / 2 - 5, str(thread), "bold" if thread <= last else "")
            for k in range(1, per_thread[1]):  # the elements of a thread, as ticks
                ticks.append((x + width * k / per_thread[1], y + high - 9, x + width * k / per_thread[1], y + high - 2))
            if not i % threads[0] and i and not j:
                canvas.line(_LEFT - 60, y - 0.5, _LEFT + _WIDTH, y - 0.5, "strong")
    canvas.lines(ticks)
    said = f"in a box: the thread; ticks separate its {math.prod(per_thread)} elements; thick lines separate warps"
    canvas.text(_LEFT, _ABOVE + high * down + 16, said, "small", "start")
    return canvas
