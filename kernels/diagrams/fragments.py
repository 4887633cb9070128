"""The tile of a block in pieces for its warps, and the fragments of a warp, as ops/matmul/matmul_wmma.cu divides them."""

from kernels.diagrams.canvas import Canvas
from kernels.diagrams.diagram import Diagram, Step

SIDE, SIZE = 128, 16  # of a block's small tile and of a fragment, in elements
ROWS, COLUMNS = 4, 4  # fragments of a warp's outputs
ACROSS = SIDE // (COLUMNS * SIZE)  # warps beside each other

_CELL, _LARGE, _GAP, _LEFT = 34, 56, 12, 16
_TILE = _CELL * SIDE // SIZE


def fragments() -> Diagram:
    """A block's 128×128 outputs and its four warps; then the fragments that a warp loads, and the products that it adds."""
    warps = SIDE // (ROWS * SIZE) * ACROSS
    block = f"{warps} warps have {SIDE} × {SIDE} outputs: {ROWS * SIZE} × {COLUMNS * SIZE} each, "
    block += f"{ROWS} × {COLUMNS} fragments of {SIZE} × {SIZE}."
    warp = f"At each {SIZE} of k the warp loads {ROWS} fragments of x and {COLUMNS} of w, and adds {ROWS * COLUMNS} products. "
    warp += f"Each fragment of x is used {COLUMNS} times, and each of w {ROWS} times."
    return Diagram(
        "Outputs of a block of matmul_wmma", [Step("a block", block, _block()), Step("a warp", warp, _warp())]
    )


def _block() -> Canvas:
    canvas = Canvas(_LEFT + _TILE + 16 + 220, _TILE + 34)
    for number in range(SIDE // (ROWS * SIZE) * ACROSS):
        left = _LEFT + number % ACROSS * COLUMNS * _CELL
        top = 28 + number // ACROSS * ROWS * _CELL
        canvas.rect(left, top, COLUMNS * _CELL, ROWS * _CELL, "strong", 0)
        if number:
            canvas.text(left + COLUMNS * _CELL / 2, top + 2 * _CELL, f"warp {number}", "bold")
    for at in range(ROWS * COLUMNS):
        canvas.rect(_LEFT + at % COLUMNS * _CELL, 28 + at // COLUMNS * _CELL, _CELL, _CELL, "used", 0)
    canvas.text(_LEFT + _TILE / 2, 12, f"{SIDE} columns of y", "small")
    right = _LEFT + _TILE + 16
    canvas.text(right, 60, "thick: a warp's outputs", "bold", "start")
    canvas.text(right, 80, f"{ROWS * SIZE} × {COLUMNS * SIZE}", "", "start")
    canvas.text(right, 116, "blue: fragments of warp 0", "bold", "start")
    canvas.text(right, 136, f"{SIZE} × {SIZE}, in 32 lanes", "", "start")
    return canvas


def _warp() -> Canvas:
    x, y = _LEFT, 6 + _LARGE + _GAP
    left = x + _LARGE + _GAP
    canvas = Canvas(_LEFT + _TILE + 16 + 220, _TILE + 34)
    for column in range(COLUMNS):
        at = left + column * _LARGE
        canvas.rect(at, 6, _LARGE, _LARGE, "wasted", 0)
        canvas.text(at + _LARGE / 2, 6 + _LARGE / 2, f"w{column}")
    for row in range(ROWS):
        top = y + row * _LARGE
        canvas.rect(x, top, _LARGE, _LARGE, "wasted", 0)
        canvas.text(x + _LARGE / 2, top + _LARGE / 2, f"x{row}")
        for column in range(COLUMNS):
            canvas.rect(left + column * _LARGE, top, _LARGE, _LARGE, "used", 0)
            canvas.text(left + (column + 0.5) * _LARGE, top + _LARGE / 2, f"x{row} · w{column}")
    right = left + COLUMNS * _LARGE + 40
    canvas.text(right, 60, f"orange: {ROWS + COLUMNS} loads", "bold", "start")
    canvas.text(right, 80, f"{SIZE} × {SIZE} of x or w each", "", "start")
    canvas.text(right, 116, f"blue: {ROWS * COLUMNS} products", "bold", "start")
    canvas.text(right, 136, "added to the sums", "", "start")
    return canvas
