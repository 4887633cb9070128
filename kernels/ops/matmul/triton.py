"""Level 4: matrix products in Triton.

Rungs, plain to best:
    blocked     one program a tile of y, which walks along K; tl.dot multiplies on the tensor cores.
    grouped     programs that run at the same time take tiles that share their rows and columns, which the L2 cache then keeps.
    pipelined   larger tiles, and the next ones on their way while these are multiplied.

All add up in float32. A product of float32 matrices is not rounded to TF32 on the way.
"""

from functools import partial
from pathlib import Path

import triton
import triton.language as tl

from kernels.operation import Variant
from kernels.ops.matmul import products
from kernels.triton.launch import launch
from kernels.unsupported import needs_interpreter

ROOT_HALF = tl.constexpr(0.7071067811865476)
ROOT_OF_2_PI = tl.constexpr(2.5066282746310002)


@triton.jit
def epilogue(h, bias_ptr, dy_ptr, rows, columns, inside, N, GELU: tl.constexpr):
    """What is made of a tile of x @ w: with the bias and through the activation; with a dy its gradient before those."""
    if bias_ptr is not None:
        h += tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    if GELU:
        normal = 0.5 * (1.0 + tl.erf(h * ROOT_HALF))
        if dy_ptr is None:
            h *= normal
        else:
            h = normal + h * tl.exp(-0.5 * h * h) / ROOT_OF_2_PI
    if dy_ptr is not None:
        h *= tl.load(dy_ptr + rows * N + columns, mask=inside, other=0.0).to(tl.float32)
    return h


@triton.jit
def matmul_tiles_kernel(
    x_ptr, w_ptr, bias_ptr, dy_ptr, y_ptr, M, N, K, x_batch, x_row, x_column, w_batch, w_row, w_column,
    GELU: tl.constexpr, GROUP_M: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    # GROUP_M tiles below each other, then the column of tiles to the right of them, and so on.
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    of_group = GROUP_M * tiles_n
    first = tl.program_id(0) // of_group * GROUP_M
    height = tl.minimum(tiles_m - first, GROUP_M)
    rows = (first + tl.program_id(0) % of_group % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(0) % of_group // height * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)

    batch = tl.program_id(1).to(tl.int64)
    # Rows beyond the matrix read those at its start: what they give is not stored.
    x_ptr += batch * x_batch + (rows % M).to(tl.int64)[:, None] * x_row
    w_ptr += batch * w_batch + (columns % N).to(tl.int64)[None, :] * w_column
    y = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in tl.range(0, K, BLOCK_K, num_stages=STAGES):
        inner = (k + depth).to(tl.int64)
        x = tl.load(x_ptr + inner[None, :] * x_column, mask=inner[None, :] < K, other=0.0)
        w = tl.load(w_ptr + inner[:, None] * w_row, mask=inner[:, None] < K, other=0.0)
        y = tl.dot(x, w, y, input_precision="ieee")

    rows, columns = rows.to(tl.int64)[:, None], columns[None, :]
    inside = (rows < M) & (columns < N)
    if dy_ptr is not None:
        dy_ptr += batch * M * N
    y = epilogue(y, bias_ptr, dy_ptr, rows, columns, inside, N, GELU)
    tl.store(y_ptr + batch * M * N + rows * N + columns, y, mask=inside)


def multiply(tile, x, w, y, bias, dy, activation) -> None:
    B, M, K = x.shape
    N = w.shape[2]
    tile = tile(M, N, K, x.itemsize)
    # A batch of one may have any stride, and one matrix for all of a batch has the stride 0.
    strides = (
        x.stride(0) if B > 1 else 0,
        x.stride(1),
        x.stride(2),
        w.stride(0) if B > 1 else 0,
        w.stride(1),
        w.stride(2),
    )
    grid = triton.cdiv(M, tile["BLOCK_M"]) * triton.cdiv(N, tile["BLOCK_N"]), B
    bias = None if bias is None else bias.contiguous()
    dy = None if dy is None else dy.contiguous()
    launch(matmul_tiles_kernel, grid, x, w, bias, dy, y, M, N, K, *strides, GELU=activation == "gelu", **tile)


def side(n: int, most: int) -> int:
    """Of a tile, for n rows or columns: a power of two of at least 16, as tl.dot wants it."""
    return max(min(triton.next_power_of_2(n), most), 16)


def plain_tile(M: int, N: int, K: int, itemsize: int, group: int = 1) -> dict[str, int]:
    sides = {"BLOCK_M": side(M, 64), "BLOCK_N": side(N, 64), "BLOCK_K": side(K, 32)}
    return {"GROUP_M": group, **sides, "STAGES": 1, "num_warps": 4}


def large_tile(M: int, N: int, K: int, itemsize: int) -> dict[str, int]:
    """128×256 values of y in the registers of 8 warps; float32 takes twice the room, and its products many instructions."""
    if itemsize == 4 or M <= 64 or N <= 64:
        return plain_tile(M, N, K, itemsize, group=8) | {"STAGES": 3}
    sides = {"BLOCK_M": side(M, 128), "BLOCK_N": side(N, 256), "BLOCK_K": side(K, 64)}
    return {"GROUP_M": 8, **sides, "STAGES": 3, "num_warps": 8}


SOURCE = (Path(__file__), Path(products.__file__))
RUNGS = {
    "blocked": (plain_tile, "one program a tile, multiplied by tl.dot"),
    "grouped": (partial(plain_tile, group=8), "tiles that share rows and columns at the same time, for the L2 cache"),
    "pipelined": (large_tile, "larger tiles, the next ones on their way"),
}
FORWARD = tuple(
    Variant(4, name, products.forward(partial(multiply, tile)), idea, SOURCE, needs_interpreter)
    for name, (tile, idea) in RUNGS.items()
)
BACKWARD = tuple(
    Variant(4, f"backward-{name}", products.backward(partial(multiply, tile)), idea, SOURCE, needs_interpreter)
    for name, (tile, idea) in list(RUNGS.items())[-1:]
)
