"""A cumulative sum over lanes by shuffles: in each step a lane adds what a lane below it holds, twice as far away as before."""

from collections.abc import Sequence

from kernels.diagrams.canvas import Canvas
from kernels.diagrams.diagram import Diagram, Step
from kernels.hardware import WARP

VALUES = (3, 1, 4, 1, 5, 9, 2, 6)
_LEFT, _CELL, _BOX, _ROW, _HEIGHT, _ABOVE = 84, 64, 46, 62, 28, 26


def held(values: Sequence[int] = VALUES) -> list[list[int]]:
    """What each lane holds at first, and after each step."""
    rows, apart = [list(values)], 1
    while apart < len(values):
        before = rows[-1]
        rows.append([own + (before[lane - apart] if lane >= apart else 0) for lane, own in enumerate(before)])
        apart *= 2
    return rows


def warp_scan() -> Diagram:
    """`__shfl_up_sync`, as warp_scan of ops/scan/scan.cu, over eight lanes."""
    rows, lanes, steps, additions = held(), len(VALUES), [], 0
    for now in range(1, len(rows)):
        apart = 2 ** (now - 1)
        additions += lanes - apart
        said = f"Lanes {apart} apart: {lanes - apart} of {lanes} lanes add what the lane {apart} below holds. "
        if now < len(rows) - 1:
            said += f"A lane has the sum of at most {2 * apart} lanes."
        else:
            said += f"A lane has the sum of all lanes up to its own, after {now} steps and {additions} additions."
            said += f" A warp of {WARP} takes {WARP.bit_length() - 1} steps."
        steps.append(Step(f"{apart} apart", said, _canvas(rows, now)))
    return Diagram(f"A cumulative sum by __shfl_up_sync, over {lanes} lanes", steps)


def _canvas(rows: Sequence[Sequence[int]], now: int) -> Canvas:
    canvas = Canvas(_LEFT + _CELL * len(VALUES), _ABOVE + _ROW * (len(rows) - 1) + _HEIGHT + 4)
    canvas.text(_LEFT - 10, 12, "lane", "small", "end")
    for step, row in enumerate(rows):
        apart, y = 2 ** (step - 1), _ABOVE + _ROW * step
        label = f"{int(apart)} apart" if step else "values"
        canvas.text(_LEFT - 10, y + _HEIGHT / 2, label, "bold" if step == now else "", "end")
        for lane, value in enumerate(row):
            x = _LEFT + _CELL * (lane + 0.5)
            if not step:
                canvas.text(x, 12, str(lane), "small")
            adds, done = step and lane >= apart, step <= now
            if adds and done:
                kind = "used" if step == now else "soft"
                for start in (x, x - _CELL * apart):
                    canvas.arrow(start, y - _ROW + _HEIGHT + 1, x, y - 1, kind)
            kind = "idle" if not done else "used" if step == now and adds else "plain"
            canvas.rect(x - _BOX / 2, y, _BOX, _HEIGHT, kind)
            if done:
                canvas.text(x, y + _HEIGHT / 2, str(value), "bold" if step == now and adds else "")
    return canvas
