"""Which lanes of a warp meet in which bank of shared memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby

from kernels.hardware import BANK_BYTES, BANKS, WARP
from kernels.lens.pictures.cells import Cell, Frame, Row, draw, spans
from kernels.lens.request import Request


def banks(requests: Mapping[str, Request], width: int):
    """One column a bank, one row a pass, one frame a request.

    Lanes that name the same word share it, and different words of a bank take turns. In which order they do is not known:
    here in that of the lanes. Accesses of 8 bytes a lane are made by half warps, of 16 bytes by quarter warps.

    requests: by name. width: bytes of a lane. Returns a figure, and what happens in each frame in words.
    """
    frames = []
    for name, request in requests.items():
        rows = [Row(f"{number}", cells) for number, cells in enumerate(_passes(request, width), start=1)]
        frames.append(Frame(name, f"{len(rows)} pass" + "es" * (len(rows) > 1), rows))
    figure = draw(
        frames,
        [str(bank) for bank in range(BANKS)],
        x="bank (in cells: lanes)",
        y="pass",
        empty="this bank has nothing to do in this pass",
    )
    return figure, [(frame.who, frame.words) for frame in frames]


def _passes(request: Request, width: int) -> Iterator[dict[int, Cell]]:
    """Of each pass the cells by bank."""
    together = WARP if width <= BANK_BYTES else WARP * BANK_BYTES // width
    lane_offsets = zip(request.lanes, request.offsets, strict=True)
    for _, group in groupby(lane_offsets, key=lambda one: one[0] // together):
        words: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))  # bank → word → lanes
        for lane, offset in group:
            for word in range(offset // BANK_BYTES, (offset + width - 1) // BANK_BYTES + 1):
                words[word % BANKS][word].append(lane)
        queues = {bank: list(words[bank].items()) for bank in sorted(words)}
        for turn in range(max(map(len, queues.values()))):
            yield {bank: _cell(request, bank, *queue[turn]) for bank, queue in queues.items() if turn < len(queue)}


def _cell(request: Request, bank: int, word: int, lanes: list[int]) -> Cell:
    element = f"{request.array}[{request.index(word * BANK_BYTES)}]"
    return Cell(tuple(lanes), f"bank {bank}, {element}: {'lanes' if lanes[1:] else 'lane'} {spans(lanes)}")
