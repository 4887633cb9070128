"""Which lanes of a warp touch which sectors of global memory."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping

from kernels.hardware import SECTOR_BYTES
from kernels.lens.pictures.cells import Cell, Frame, Row, draw, spans
from kernels.lens.request import Request


def sectors(requests: Mapping[str, Request], width: int, atomic: bool):
    """One row a sector, one frame a request.

    requests: by name. width: bytes of a lane. Returns a figure, and what happens in each frame in words.
    """
    # Cells are as wide as a lane's bytes, or less if some lane begins in between.
    cell = math.gcd(SECTOR_BYTES, width, *(offset for one in requests.values() for offset in one.offsets))
    frames = [_frame(name, one, width, cell, atomic) for name, one in requests.items()]
    columns = [str(byte) for byte in range(0, SECTOR_BYTES, cell)]
    array = next(iter(requests.values())).array
    figure = draw(
        frames,
        columns,
        x="byte of the sector (in cells: lanes)",
        y=f"sectors of {array}, by first element",
        empty="moved, and no lane asked for it",
    )
    return figure, [(frame.who, frame.words) for frame in frames]


def _frame(name: str, request: Request, width: int, cell: int, atomic: bool) -> Frame:
    touched: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for lane, offset in zip(request.lanes, request.offsets, strict=True):
        for byte in range(offset, offset + width, cell):
            touched[byte // SECTOR_BYTES][byte % SECTOR_BYTES // cell].append(lane)
    rows = []
    for sector in sorted(touched):
        begin = sector * SECTOR_BYTES
        cells = {}
        for column, lanes in touched[sector].items():
            first, last = (request.index(begin + byte) for byte in (column * cell, (column + 1) * cell - 1))
            element = f"{request.array}[{first}]" if first == last else f"{request.array}[{first}–{last}]"
            cells[column] = Cell(tuple(lanes), f"{element}: {'lanes' if lanes[1:] else 'lane'} {spans(lanes)}")
        rows.append(Row(f"{request.array}[{request.index(begin)}]", cells))
    words = f"{len(rows)} sector" + "s" * (len(rows) > 1)
    if atomic:
        words += f", asked for {_turns(request)} times"
    else:
        used = cell * sum(len(cells) for _, cells in rows)
        words += f", {used:,} of {SECTOR_BYTES * len(rows):,} bytes used"
    return Frame(name, words, rows)


def _turns(request: Request) -> int:
    """How often an atomic asks for its sectors: lanes that name the same word take turns."""
    most: dict[int, int] = defaultdict(int)
    for offset, lanes in Counter(request.offsets).items():
        sector = offset // SECTOR_BYTES
        most[sector] = max(most[sector], lanes)
    return sum(most.values())
