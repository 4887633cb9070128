"""Level 4: bias and GELU in Triton, forward and backward: every matrix is read or written once, in tiles."""

from pathlib import Path

import torch
import triton
import triton.language as tl

from kernels.activations import GELU
from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.machine import multiprocessors
from kernels.operation import Variant
from kernels.triton import activations, column_sums, tiles
from kernels.triton.activations import activated
from kernels.triton.column_sums import Partials, store_partial
from kernels.triton.launch import launch
from kernels.triton.tiles import elements_of, tile, tiles_of
from kernels.unsupported import needs_interpreter

FEW_ROWS = 256  # that one program adds up, without a second kernel; no GPU has timed other bounds yet


@triton.jit
def bias_gelu_kernel(
    x_ptr, bias_ptr, y_ptr, x_stride, M, N,
    ACTIVATION: tl.constexpr, EXACT: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows, columns, inside = tile(M, N, ROWS, BLOCK_N)
    bias = tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + rows * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
    value, _ = activated(x + bias, ACTIVATION, EXACT)
    tl.store(y_ptr + rows * N + columns, value, mask=inside)


@triton.jit
def bias_gelu_backward_kernel(
    dy_ptr, x_ptr, bias_ptr, dx_ptr, dbias_ptr, dy_stride, x_stride, M, N,
    ACTIVATION: tl.constexpr, EXACT: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    # A program keeps its columns and walks down the rows, so that the sums for dbias stay in registers.
    columns = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    bias = tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    dbias = tl.zeros((ROWS, BLOCK_N), tl.float32)
    for start in tl.range(tl.program_id(1) * ROWS, M, tl.num_programs(1) * ROWS, num_stages=STAGES):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        inside = (rows < M) & (columns < N)
        dy = tl.load(dy_ptr + rows * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + rows * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
        _, slope = activated(x + bias, ACTIVATION, EXACT)
        dx = dy * slope
        tl.store(dx_ptr + rows * N + columns, dx, mask=inside)
        dbias += dx
    store_partial(dbias_ptr, dbias, tl.program_id(1), columns, N)


def tiled(x, bias, approximate):
    y = empty_contiguous(x)
    if y.numel():
        rows = as_rows(x)
        M, N = rows.shape
        programs, shape = tiles_of(M, N, elements_of(M * N, x.device))
        how = {"ACTIVATION": GELU[approximate], "EXACT": x.element_size() == 4}
        arguments = (rows, as_columns(bias), y, rows.stride(0), M, N)
        launch(bias_gelu_kernel, (programs,), *arguments, **how, **shape, num_warps=4)
    return y


def columns(dy, x, bias, approximate):
    """Deterministic on one kind of GPU: which rows a program adds up, and in which order, is fixed."""
    dx = empty_contiguous(x)
    if not x.numel():
        return dx, bias.new_zeros(bias.shape)
    dy, x = as_rows(dy), as_rows(x)
    M, N = x.shape
    tile, programs = columns_tile(M, N, x.device)
    sums = Partials(programs, bias, alone=programs == 1)
    how = {"ACTIVATION": GELU[approximate], "EXACT": x.element_size() == 4}
    arguments = (dy, x, as_columns(bias), dx, sums.dweight, dy.stride(0), x.stride(0), M, N)
    launch(bias_gelu_backward_kernel, (triton.cdiv(N, tile["BLOCK_N"]), programs), *arguments, **how, **tile)
    return dx, sums.add_up()[0]


def columns_tile(M: int, N: int, device: torch.device) -> tuple[dict[str, int], int]:
    """The tile of a program, and how many programs share the rows: one where a tile has room for them all, and then there is
    no second kernel."""
    height = triton.next_power_of_2(M)
    if height <= FEW_ROWS:
        block = max(1_024 // height, 32)
        return {"ROWS": height, "BLOCK_N": block, "STAGES": 1, "num_warps": max(height * block // 512, 4)}, 1
    block = min(max(triton.next_power_of_2(N), 32), 128)
    tile = {"ROWS": 2_048 // block, "BLOCK_N": block, "STAGES": 3, "num_warps": 4}
    programs = max(4 * multiprocessors(device) // triton.cdiv(N, block), 1)
    return tile, min(triton.cdiv(M, tile["ROWS"]), programs)


PARTS = (Path(__file__), Path(activations.__file__))
FORWARD = (Variant(4, "tiles", tiled, "one program a tile", (*PARTS, Path(tiles.__file__)), needs_interpreter),)
BACKWARD = (
    Variant(
        4,
        "columns",
        columns,
        "a program keeps its columns, and the sums for dbias in registers",
        (*PARTS, Path(column_sums.__file__)),
        needs_interpreter,
    ),
)
