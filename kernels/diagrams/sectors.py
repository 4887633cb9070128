"""The 32-byte sectors of global memory that a warp's access moves, and which lane names which bytes."""

import math
from collections import defaultdict

from kernels.diagrams.canvas import Canvas
from kernels.diagrams.diagram import Diagram, Step
from kernels.hardware import SECTOR_BYTES, WARP
from kernels.lens import Request, Trace
from kernels.lens.pictures import meant

_LEFT, _CELL, _ROW, _ABOVE = 60, 18, 30, 66
_COLUMNS = 32
_MOST_ROWS = 8
FLOAT = 4


def sectors(
    access: int | Trace = 1, array: str | None = None, *, line: int | str | None = None, kind: str | None = None
) -> Diagram:
    """A warp's access of global memory: the bytes that its lanes name, and the sectors that are moved for them.

    access: a stride, for a load of `x[stride * lane]` by all lanes, floats; or a `Trace`, whose first request is drawn.
    array, line, kind: which access of the trace, as in `Trace.figure`.

    Raises:
        ValueError: the stride is negative; or as `Trace.figure` does.
    """
    if isinstance(access, Trace):
        found = meant(access, array, line, kind)
        if found.space != "global":
            raise ValueError(
                f"access: got one of {found.space} memory, expected one of global memory, which has sectors"
            )
        title = f"{found.kind.capitalize()} of {', '.join(found.names)}, {found.width} bytes a lane"
        return _diagram(title, found.samples[0], found.width)
    if access < 0:
        raise ValueError(f"access: got {access}, expected a stride of 0 or more, or a Trace")
    lanes = tuple(range(WARP))
    request = Request((0, 0, 0), 0, "x", FLOAT, 0, lanes, tuple(FLOAT * access * lane for lane in lanes))
    return _diagram(f"Load of x[{access} * lane], 4 bytes a lane", request, FLOAT)


def touched(request: Request, width: int) -> list[int]:
    """The numbers of the sectors that hold a byte that some lane names."""
    named = ((offset // SECTOR_BYTES, (offset + width - 1) // SECTOR_BYTES) for offset in request.offsets)
    return sorted({sector for first, last in named for sector in range(first, last + 1)})


def _diagram(title: str, request: Request, width: int) -> Diagram:
    moved = touched(request, width)
    named = len({byte for offset in request.offsets for byte in range(offset, offset + width)})
    words = f"The {len(request.lanes)} lanes name {_bytes(named)}; {len(moved)} sector{'s' * (len(moved) > 1)} of "
    words += f"{SECTOR_BYTES} bytes {'are' if len(moved) > 1 else 'is'} moved, {_bytes(SECTOR_BYTES * len(moved))}."

    cell = math.gcd(4, width, *(offset % SECTOR_BYTES for offset in request.offsets))
    per_row = _COLUMNS * cell // SECTOR_BYTES
    rows = sorted({sector // per_row for sector in moved})
    shown = rows[:_MOST_ROWS]
    canvas = Canvas(640, _ABOVE + _ROW * len(shown) + (30 if len(rows) > len(shown) else 8))
    _scale(canvas, named, SECTOR_BYTES * len(moved))
    for number, row in enumerate(shown):
        y = _ABOVE + _ROW * number
        begin = row * per_row * SECTOR_BYTES
        canvas.text(_LEFT - 8, y + 12, f"{request.array}[{request.index(begin)}]", "small", "end")
        for sector in range(row * per_row, (row + 1) * per_row):
            x = _LEFT + _CELL * (sector * SECTOR_BYTES - begin) / cell
            canvas.rect(x - 1, y, _CELL * SECTOR_BYTES / cell - 2, 24, "wasted" if sector in moved else "idle", 3)
        lanes = defaultdict(list)
        for lane, offset in zip(request.lanes, request.offsets, strict=True):
            if begin <= offset < begin + _COLUMNS * cell:
                lanes[offset].append(lane)
        for offset, those in sorted(lanes.items()):
            x = _LEFT + _CELL * (offset - begin) / cell
            canvas.rect(x + 1, y + 3, _CELL * width / cell - 4, 18, "used")
            label = str(those[0]) if len(those) == 1 else "+"
            canvas.text(x + _CELL * width / cell / 2 - 1, y + 12, label, "small")
    if len(rows) > len(shown):
        left = len(rows) - len(shown)
        canvas.text(_LEFT, _ABOVE + _ROW * len(shown) + 12, f"and {left} more rows, as these", "small", "start")
    if len(set(request.offsets)) < len(request.offsets):
        words += " Lanes that name the same bytes are drawn as +."
    return Diagram(title, [Step("", words, canvas)])


def _scale(canvas: Canvas, named: int, moved: int) -> None:
    """Two bars, of the bytes named and those moved; they serve as the legend."""
    longest = 340 / max(named, moved)
    for y, kind, count, said in ((2, "used", named, "named by lanes"), (26, "wasted", moved, "moved in sectors")):
        canvas.rect(_LEFT, y, longest * count, 18, kind)
        canvas.text(_LEFT + longest * count + 8, y + 9, f"{_bytes(count)} {said}", "", "start")


def _bytes(count: int) -> str:
    return f"{count:,} byte" + "s" * (count != 1)
