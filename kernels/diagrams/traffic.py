"""What kernels read from memory and write there: every arrow is a whole matrix that moves."""

from collections.abc import Mapping, Sequence

from kernels.diagrams.canvas import Canvas
from kernels.diagrams.diagram import Diagram, Step

Kernel = tuple[str, Sequence[str], Sequence[str]]
_WIDTH, _LEFT, _BOX, _HEIGHT, _BETWEEN = 640, 76, 120, 34, 84


def traffic(steps: Mapping[str, Sequence[Kernel]]) -> Diagram:
    """A drawing for each step, by its label: kernels by name, each with the matrices that it reads and those that it writes."""
    drawn = []
    for label, kernels in steps.items():
        moved = sum(len(read) + len(written) for _, read, written in kernels)
        parts = [
            f"Kernel {name} reads {', '.join(read)} and writes {', '.join(wrote)}." for name, read, wrote in kernels
        ]
        drawn.append(Step(label, f"{' '.join(parts)} Matrices moved: {moved}.", _canvas(kernels)))
    return Diagram("What kernels read and write", drawn)


def _canvas(kernels: Sequence[Kernel]) -> Canvas:
    canvas = Canvas(_WIDTH, 2 * _HEIGHT + _BETWEEN + 8)
    matrices = list(dict.fromkeys(name for _, read, written in kernels for name in (*read, *written)))
    above, below = 4, 4 + _HEIGHT + _BETWEEN
    canvas.text(0, above + _HEIGHT / 2, "kernels", "small", "start")
    canvas.text(0, below + _HEIGHT / 2, "memory", "small", "start")
    for at, (_, read, written) in enumerate(kernels):
        ends = [(name, "used") for name in read] + [(name, "wasted") for name in written]
        for number, (name, kind) in enumerate(ends):
            # Side by side where they meet the kernel, reads left of writes.
            x = _x(at, len(kernels)) + _BOX * ((number + 0.5) / len(ends) - 0.5)
            matrix_x = _x(matrices.index(name), len(matrices)) + (9 if kind == "used" else -9)
            if kind == "used":
                canvas.arrow(matrix_x, below - 1, x, above + _HEIGHT + 1, kind)
            else:
                canvas.arrow(x, above + _HEIGHT + 1, matrix_x, below - 1, kind)
    for names, y, kind in (([name for name, *_ in kernels], above, "strong"), (matrices, below, "plain")):
        for at, name in enumerate(names):
            x = _x(at, len(names))
            canvas.rect(x - _BOX / 2, y, _BOX, _HEIGHT, kind)
            canvas.text(x, y + _HEIGHT / 2, name)
    return canvas


def _x(at: int, count: int) -> float:
    return _LEFT + (_WIDTH - _LEFT) * (at + 0.5) / count
