"""Which lanes of a warp work, instruction after instruction, where a branch splits a warp and where it does not."""

from collections.abc import Callable
from typing import NamedTuple

from kernels.diagrams.canvas import Canvas
from kernels.diagrams.diagram import Diagram, Step
from kernels.hardware import WARP

_LEFT, _CELL, _ROW = 190, 13.8, 27


class Moment(NamedTuple):
    """What a warp does, and whether a thread, by its index i, takes part."""

    does: str
    active: Callable[[int], bool]


def _everyone(i: int) -> bool:
    return True


def _moments(goes: str, first: Callable[[int], bool]) -> list[Moment]:
    ways = [Moment("grown(x[i])", first), Moment("shrunk(x[i])", lambda i: not first(i))]
    return [Moment(f"if ({goes})", _everyone), *ways, Moment("y[i] = …", _everyone)]


BY_LANE = _moments("i % 2 == 0", lambda i: i % 2 == 0)
BY_WARP = _moments("i / 32 % 2 == 0", lambda i: i // WARP % 2 == 0)


def divergence() -> Diagram:
    """The kernels `diverge_lanes` and `diverge_warps` of branches.cu: two ways, each for half of the threads."""
    steps = []
    for now in range(len(BY_LANE)):
        who = active(BY_LANE, 0)[now]
        off = WARP - len(who)
        said = f"{BY_LANE[now].does}: all {WARP} lanes work."
        if off:
            said = f"{BY_LANE[now].does}: {len(who)} lanes work; the other {off} are switched off."
        steps.append(Step(f"{now + 1}. {BY_LANE[now].does}", said, _canvas(BY_LANE, "i % 2 == 0", [now])))
    lanes, warps = (sum(map(len, active(moments, 0))) for moments in (BY_LANE, BY_WARP))
    taken = [len(active(moments, 0)) for moments in (BY_LANE, BY_WARP)]
    said = (
        f"The same work, divided by warp: warp 0 takes one branch and warp 1 the other, each in {taken[1]} instructions with all "
        f"active lanes, {warps} of {taken[1] * WARP}. Divided by lane, every warp takes {taken[0]}, and its lanes work "
        f"{lanes} of {taken[0] * WARP} times."
    )
    steps.append(Step("By warp instead", said, _canvas(BY_WARP, "i / 32 % 2 == 0", [])))
    return Diagram("Two branches of a warp over time", steps)


def active(moments: list[Moment], warp: int) -> list[list[int]]:
    """The active lanes, of each instruction that the warp issues: of those with none it issues none."""
    threads = range(warp * WARP, (warp + 1) * WARP)
    lanes = [[thread % WARP for thread in threads if moment.active(thread)] for moment in moments]
    return [those for those in lanes if those]


def _canvas(moments: list[Moment], goes: str, now: list[int]) -> Canvas:
    warps = range(1 if now else 2)
    canvas = Canvas(640, 176)
    cell = _CELL if now else 6.6
    for warp in warps:
        left = _LEFT + (WARP * cell + 8) * warp
        canvas.text(left, 12, f"warp {warp}: lanes 0 to {WARP - 1}", "small", "start")
        row = 0
        for number, moment in enumerate(moments):
            lanes = [lane for lane in range(WARP) if moment.active(warp * WARP + lane)]
            y = 28 + _ROW * number
            if warp == 0:
                canvas.text(_LEFT - 12, y + 10, moment.does, "bold" if number in now else "", "end")
            for lane in range(WARP):
                kind = ("used" if number in now or not now else "plain") if lane in lanes else "idle"
                if lanes:
                    canvas.rect(left + cell * lane + 0.75, y, cell - 1.5, 20, kind, 1)
            if not lanes:
                canvas.text(left + WARP * cell / 2, y + 10, "not issued: no lane goes this way", "small")
            row += bool(lanes)
        if not now:
            canvas.text(left, 28 + _ROW * len(moments) + 8, f"{row} instructions", "bold", "start")
    if now:
        lanes = active(moments, 0)
        working = sum(map(len, lanes))
        said = f"{len(lanes)} instructions, active lanes {working} of {len(lanes) * WARP} times"
        canvas.text(_LEFT, 28 + _ROW * len(moments) + 8, said, "bold", "start")
    canvas.text(_LEFT, 162, "time goes down; dashed: switched off", "small", "start")
    return canvas
