"""Who reads what: threads between the elements that they read and those that they write."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from kernels.diagrams.canvas import Canvas
from kernels.diagrams.diagram import Diagram, Step

Size = int | tuple[int, int]
Elements = Mapping[str, Collection[int]]
Move = tuple[int, Elements, Elements]

_LEFT, _CELL, _GAP, _BAND = 90, 24, 20, 52
_CHARACTER = 6.2  # of a name


class _Place(NamedTuple):
    """An array, or the threads, as a grid of cells. Elements are numbered row by row."""

    name: str
    rows: int
    columns: int
    x: float
    y: float

    def corner(self, element: int) -> tuple[float, float]:
        row, column = divmod(element, self.columns)
        return self.x + _CELL * column, self.y + _CELL * row

    def named(self, element: int) -> str:
        row, column = divmod(element, self.columns)
        two = self.rows > 1 and self.columns > 1
        return f"{self.name}[{row}, {column}]" if two else f"{self.name}[{element}]"


def reads(
    inputs: Mapping[str, Size],
    threads: Size,
    outputs: Mapping[str, Size],
    steps: Mapping[str, Sequence[Move]],
    shared: Mapping[str, Size] | None = None,
) -> Diagram:
    """A drawing of which thread reads and writes which elements.

    inputs, outputs, shared: arrays by name, with their numbers of elements, or of rows and columns. threads: likewise;
        several rows are a block of two dimensions, or several blocks.
    steps: by label, such as "thread 3"; each a list of threads with the elements that they read and write, by array.
        Elements and threads are numbered row by row.

    ValueError: a step names an array, element or thread that is not there.
    """
    bands = [
        {**inputs, **(outputs if shared else {})},
        {"threads": threads},
        shared or outputs,
    ]
    names = ("global memory", "threads", "shared memory" if shared else "global memory")
    places: dict[str, _Place] = {}
    beside, y = {}, 8.0
    left = _LEFT + max(_room(next(iter(band))) for band in bands if band is not bands[1])  # threads have no name
    across = max(map(_across, bands))
    for name, band in zip(names, bands, strict=True):
        placed = _placed(band, left + (across - _across(band)) / 2, y)
        places |= {one.name: one for one in placed}
        beside[y] = name
        y += _CELL * max(one.rows for one in placed) + _BAND
    drawn = []
    for label, moves in steps.items():
        canvas = Canvas(left + across, y - _BAND)
        for at, name in beside.items():
            canvas.text(0, at + _CELL / 2 - 1.5, name, "small", "start")
        _draw(canvas, places, moves)
        drawn.append(Step(label, _words(places, moves), canvas))
    return Diagram("Who reads and writes what", drawn)


def _sizes(band: Mapping[str, Size]) -> dict[str, tuple[int, int]]:
    return {name: (1, size) if isinstance(size, int) else size for name, size in band.items()}


def _room(name: str) -> float:
    """Before a grid, for its name."""
    return _CHARACTER * len(name) + 8


def _across(band: Mapping[str, Size]) -> float:
    """The width of grids beside each other, with the names of all but the first: it stands beside what is in the middle, so
    that arrays and threads of one size lie below each other."""
    first, *others = _sizes(band).items()
    return _CELL * first[1][1] + sum(_GAP + _room(name) + _CELL * columns for name, (_, columns) in others)


def _placed(band: Mapping[str, Size], x: float, y: float) -> list[_Place]:
    """The grids of a band beside each other, the first of them at x."""
    places: list[_Place] = []
    for name, (rows, columns) in _sizes(band).items():
        places.append(_Place(name, rows, columns, x + (_room(name) if places else 0), y))
        x = places[-1].x + _CELL * columns + _GAP
    return places


def _draw(canvas: Canvas, places: Mapping[str, _Place], moves: Sequence[Move]) -> None:
    threads, own = places["threads"], {thread for thread, *_ in moves}
    read = {at for _, elements, _ in moves for at in _each(elements)}
    written = {at for _, _, elements in moves for at in _each(elements)}
    for thread, *both in moves:
        for elements, kind in zip(both, ("used", "wasted"), strict=True):
            for name, element in _each(elements):
                _line(canvas, threads.corner(_there(threads, thread)), places, name, element, kind)
    for place in places.values():
        if place is not threads:
            canvas.text(place.x - 6, place.y + _CELL / 2 - 1.5, place.name, "small", "end")
        for element in range(place.rows * place.columns):
            x, y = place.corner(element)
            if place is threads:
                kind = "strong" if element in own else "soft"
            else:
                at = (place.name, element)
                kind = "wasted" if at in written else "used" if at in read else "soft"
            canvas.rect(x, y, _CELL - 3, _CELL - 3, kind, _CELL / 2 if place is threads else 2)
            canvas.text(x + _CELL / 2 - 1.5, y + _CELL / 2 - 1.5, str(element), "small")


def _each(elements: Elements) -> Iterator[tuple[str, int]]:
    return ((name, element) for name, of in elements.items() for element in of)


def _line(
    canvas: Canvas, thread: tuple[float, float], places: Mapping[str, _Place], name: str, element: int, kind: str
) -> None:
    if name not in places:
        raise ValueError(f"steps: got an array {name!r}, expected one of {', '.join(places)}")
    (x1, y1), (x2, y2) = thread, places[name].corner(_there(places[name], element))
    below = y2 > y1  # from edge to edge, so that numbers stay readable
    start, end = (y1 + _CELL - 3, y2) if below else (y1, y2 + _CELL - 3)
    ends = [(x1 + _CELL / 2 - 1.5, start), (x2 + _CELL / 2 - 1.5, end)]
    if kind == "used":  # what is read comes to the thread
        ends.reverse()
    canvas.arrow(*ends[0], *ends[1], kind)


def _there(place: _Place, element: int) -> int:
    if not 0 <= element < place.rows * place.columns:
        raise ValueError(f"steps: got {place.name}[{element}], expected less than {place.rows * place.columns}")
    return element


def _words(places: Mapping[str, _Place], moves: Sequence[Move]) -> str:
    """Of the first two threads and the last."""
    shown = [*moves[:2], moves[-1]] if len(moves) > 3 else moves
    said = [_sentence(places, *move) for move in shown]
    if len(moves) > 3:
        said.insert(2, "And so on.")
    return " ".join(said)


def _sentence(places: Mapping[str, _Place], thread: int, read: Elements, written: Elements) -> str:
    parts = [
        f"{verb} {_listed([places[name].named(element) for name, element in _each(elements)])}"
        for verb, elements in (("reads", read), ("writes", written))
        if any(map(len, elements.values()))
    ]
    return f"Thread {thread} {' and '.join(parts) or 'has no element: it does nothing'}."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
