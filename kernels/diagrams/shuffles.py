"""Sums over the lanes of a warp by shuffles: a tree, which leaves the sum in one lane, and a butterfly, in all of them."""

from collections.abc import Callable

from kernels.diagrams.canvas import Canvas
from kernels.diagrams.diagram import Diagram, Step
from kernels.hardware import WARP

LANES = 16  # drawn: those of a warp would be too narrow to read
_LEFT, _CELL, _BOX, _ROW = 76, 35, 29, 62
_ABOVE = 34


def tree() -> Diagram:
    """`__shfl_down_sync`: each lane adds what a lane further right holds, and half as many lanes matter after each step."""
    return _drawn("A tree: __shfl_down_sync", lambda lane, apart: lane + apart, lambda lane, apart: lane < apart)


def butterfly() -> Diagram:
    """`__shfl_xor_sync`, as warp_sum of reductions.cuh: pairs of lanes exchange what they hold, and all of them add."""
    return _drawn("A butterfly: __shfl_xor_sync", lambda lane, apart: lane ^ apart, lambda lane, apart: True)


def held(
    source: Callable[[int, int], int], matters: Callable[[int, int], bool], lanes: int = LANES
) -> list[list[int | None]]:
    """What each lane holds before the first step and after each: lane l begins with l. None: nothing that matters."""
    rows: list[list[int | None]] = [list(range(lanes))]
    apart = lanes // 2
    while apart:
        before = rows[-1]
        after: list[int | None] = []
        for lane in range(lanes):
            own, other = before[lane], before[source(lane, apart)] if matters(lane, apart) else None
            after.append(None if own is None or other is None else own + other)
        rows.append(after)
        apart //= 2
    return rows


def _drawn(title: str, source: Callable[[int, int], int], matters: Callable[[int, int], bool]) -> Diagram:
    rows = held(source, matters)
    steps = []
    for now in range(1, len(rows)):
        apart = LANES >> now
        holding = sum(value is not None for value in rows[now])
        adds = sum(value is not None for row in rows[1 : now + 1] for value in row)
        words = f"{'each of the' if holding == LANES else ''} {holding} lanes".strip() if holding > 1 else "lane 0"
        said = f"Lanes {apart} apart: {words} {'adds' if holding in (1, LANES) else 'add'} what the other holds. "
        if now < len(rows) - 1:
            said += f"{LANES // 2**now} partial sums remain." if holding < LANES else _groups(2**now)
        else:
            end = "Lane 0 alone has" if holding == 1 else "Every lane has"
            said += f"{end} the sum, {rows[-1][0]}, after {now} steps and {adds} additions that count."
            said += f" A warp of {WARP} takes {WARP.bit_length() - 1} steps."
        steps.append(Step(f"{apart} apart", said, _canvas(rows, now, source, matters)))
    return Diagram(f"{title} over {LANES} lanes", steps)


def _groups(size: int) -> str:
    return f"Each lane has the sum of {size} lanes."


def _canvas(
    rows: list[list[int | None]], now: int, source: Callable[[int, int], int], matters: Callable[[int, int], bool]
) -> Canvas:
    canvas = Canvas(640, _ABOVE + _ROW * (len(rows) - 1) + 34)
    canvas.text(_LEFT - 10, 14, "lane", "small", "end")
    for lane in range(LANES):
        canvas.text(_x(lane), 14, str(lane), "small")
    for step in range(1, len(rows)):
        label = f"{LANES >> step} apart"
        canvas.text(_LEFT - 10, _y(step) - 17, label, "bold" if step == now else "", "end")
        for lane in range(LANES):
            # What was asked for later is not drawn yet, and what is not needed never.
            if step <= now and rows[step][lane] is not None:
                kind = "used" if step == now else "soft"
                canvas.line(_x(lane), _y(step - 1) + 27, _x(lane), _y(step) - 1, kind)
                canvas.arrow(_x(source(lane, LANES >> step)), _y(step - 1) + 27, _x(lane), _y(step) - 1, kind)
    for step, row in enumerate(rows):
        for lane, value in enumerate(row):
            done = step <= now and value is not None
            canvas.rect(
                _x(lane) - _BOX / 2, _y(step), _BOX, 26, ("used" if step == now else "plain") if done else "idle"
            )
            if done:
                canvas.text(_x(lane), _y(step) + 13, str(value), "bold" if step == now else "")
    return canvas


def _x(lane: int) -> float:
    return _LEFT + _CELL * (lane + 0.5)


def _y(step: int) -> float:
    return _ABOVE - 8 + _ROW * step
