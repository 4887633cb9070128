"""Level 4: matrix products in Triton.

Rungs, plain to best:
    blocked      one program a tile of y, which walks along K; tl.dot multiplies on the tensor cores.
    grouped      programs that run at the same time take tiles that share their rows and columns, which the L2 cache then keeps.
    pipelined    larger tiles, and the next ones on their way while these are multiplied.
    descriptors  tiles by TMA, which one thread asks for, and programs that stay for many of them.
    split        smaller tiles, or several programs a tile, where multiprocessors would have none.

All add up in float32. A product of float32 matrices is not rounded to TF32 on the way.
"""

from functools import partial
from pathlib import Path

from kernels.operation import Variant
from kernels.ops.matmul import products, triton_descriptors, triton_split, triton_tiles
from kernels.ops.matmul.triton_tiles import large_tile, multiply, plain_tile
from kernels.unsupported import needs_interpreter

SOURCE = (Path(__file__), Path(triton_tiles.__file__), Path(products.__file__))
RUNGS: dict[str, tuple[products.Multiply, str, tuple[Path, ...]]] = {
    "blocked": (partial(multiply, plain_tile), "one program a tile, multiplied by tl.dot", SOURCE),
    "grouped": (
        partial(multiply, partial(plain_tile, group=8)),
        "tiles that share rows and columns at the same time, for the L2 cache",
        SOURCE,
    ),
    "pipelined": (partial(multiply, large_tile), "larger tiles, the next ones on their way", SOURCE),
    "descriptors": (
        triton_descriptors.multiply,
        "tiles by TMA descriptors, for programs that stay for many",
        (Path(triton_descriptors.__file__), *SOURCE),
    ),
    "split": (
        triton_split.multiply,
        "several programs a tile, where tiles are few and sums long",
        (Path(triton_split.__file__), Path(triton_descriptors.__file__), *SOURCE),
    ),
}
FORWARD = tuple(
    Variant(4, name, products.forward(multiply), idea, source, needs_interpreter)
    for name, (multiply, idea, source) in RUNGS.items()
)
BACKWARD = tuple(
    Variant(4, f"backward-{name}", products.backward(multiply), idea, source, needs_interpreter)
    for name, (multiply, idea, source) in list(RUNGS.items())[-3:]
)
