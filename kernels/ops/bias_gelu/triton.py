"""Level 4: bias and GELU in Triton, forward and backward: every matrix is read or written once, in tiles."""

import math
from pathlib import Path

import torch
import triton
import triton.language as tl

from kernels.activations import GELU
from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.hardware import LAUNCH_GRID, WARP
from kernels.machine import elements_of_thread, multiprocessors
from kernels.operation import Variant
from kernels.triton import activations, column_sums, tiles
from kernels.triton.activations import activated
from kernels.triton.column_sums import Partials, store_partial
from kernels.triton.launch import launch
from kernels.triton.tiles import MANY, tiles_of
from kernels.unsupported import needs_interpreter

THREADS = 128  # of a program of the forward
# Of rows that are joined: 16 elements a thread, of as few columns as a load has, since each asks for its bias.
JOINED_TILE = {"ROWS": 4, "BLOCK_N": 512}
FEW_ROWS = 64  # of a small matrix, that one program adds up without a second kernel; no GPU has timed other bounds yet
TILES = 4  # of a program at least, where there are more rows: each has a partial sum, which the second kernel reads


@triton.jit
def put_y(
    x_ptr, bias_ptr, y_ptr, x_at, bias_at, y_at, inside, inside_bias, ACTIVATION: tl.constexpr, EXACT: tl.constexpr
):  # fmt: skip
    bias = tl.load(bias_ptr + bias_at, mask=inside_bias).to(tl.float32)
    x = tl.load(x_ptr + x_at, mask=inside).to(tl.float32)
    value, _ = activated(x + bias, ACTIVATION, EXACT)
    tl.store(y_ptr + y_at, value, mask=inside)


@triton.jit
def bias_gelu_kernel(
    x_ptr, bias_ptr, y_ptr, x_stride, M, N, groups,
    ACTIVATION: tl.constexpr, EXACT: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, JOINED: tl.constexpr,
):  # fmt: skip
    """JOINED: so many rows of the matrix are taken for one, `groups` times, so that it starts where wide loads do; a tile is no
    wider than a row of the matrix. Rows that are left over are taken as they are."""
    across, program = tl.cdiv(N * JOINED, BLOCK_N), tl.program_id(0)
    if JOINED == 1:  # tiles have their places in a grid: no division keeps the loads waiting
        down = tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)
        rows = down.to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
        columns = program * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
        within = columns < N
        x_at, y_at = rows * x_stride + columns, rows * N + columns
        put_y(x_ptr, bias_ptr, y_ptr, x_at, columns, y_at, (rows < M) & within, within, ACTIVATION, EXACT)
    elif program < across * tl.cdiv(groups, ROWS):
        start, right = program % across * BLOCK_N, tl.arange(0, BLOCK_N)[None, :]
        group = (program // across).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
        at = group * (N * JOINED) + start + right
        inside = (group < groups) & (start + right < N * JOINED)
        bias_at = start % N + right
        bias_at -= tl.where(bias_at >= N, N, 0)
        put_y(x_ptr, bias_ptr, y_ptr, at, bias_at, at, inside, None, ACTIVATION, EXACT)
    else:
        program -= across * tl.cdiv(groups, ROWS)
        across = tl.cdiv(N, BLOCK_N)
        rows = groups * JOINED + (program // across).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
        columns = (program % across).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
        x_at, y_at = rows * x_stride + columns, rows * N + columns
        within = columns < N
        put_y(x_ptr, bias_ptr, y_ptr, x_at, columns, y_at, (rows < M) & within, within, ACTIVATION, EXACT)


@triton.jit
def put_dx(
    dy_ptr, x_ptr, dx_ptr, bias, rows, columns, inside, dy_stride, x_stride, dx_stride,
    ACTIVATION: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Writes a tile of dx and returns it, not rounded; 0 outside."""
    dy = tl.load(dy_ptr + rows * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + rows * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
    _, slope = activated(x + bias, ACTIVATION, EXACT)
    dx = dy * slope
    tl.store(dx_ptr + rows * dx_stride + columns, dx, mask=inside)
    return dx


@triton.jit
def bias_gelu_backward_kernel(
    dy_ptr, x_ptr, bias_ptr, dx_ptr, dbias_ptr, dy_stride, x_stride, M, N, width, rest,
    ACTIVATION: tl.constexpr, EXACT: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    # A program keeps its columns and walks down the rows, so that the sums for dbias stay in registers. A row here may be
    # several of the matrix, joined, each `width` wide; then `rest` elements of the matrix, if any, fill no such row.
    columns = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    bias_at = columns if width is None else columns % width
    bias = tl.load(bias_ptr + bias_at, mask=columns < N, other=0.0).to(tl.float32)
    dbias = tl.zeros((ROWS, BLOCK_N), tl.float32)
    below = tl.arange(0, ROWS)
    if STAGES == 0:
        rows = below.to(tl.int64)[:, None]
        inside = (rows < M) & (columns < N)
        dbias = put_dx(
            dy_ptr, x_ptr, dx_ptr, bias, rows, columns, inside, dy_stride, x_stride, N, ACTIVATION, EXACT
        )  # fmt: skip
    else:
        for start in tl.range(tl.program_id(1) * ROWS, M, tl.num_programs(1) * ROWS, num_stages=STAGES):
            rows = (start + below).to(tl.int64)[:, None]
            inside = (rows < M) & (columns < N)
            dbias += put_dx(
                dy_ptr, x_ptr, dx_ptr, bias, rows, columns, inside, dy_stride, x_stride, N, ACTIVATION, EXACT
            )  # fmt: skip
    if rest is not None:
        rows = (M + below).to(tl.int64)[:, None]
        if tl.program_id(1) == tl.num_programs(1) - 1:
            inside = (rows == M) & (columns < rest)
            dbias += put_dx(
                dy_ptr, x_ptr, dx_ptr, bias, rows, columns, inside, dy_stride, x_stride, N, ACTIVATION, EXACT
            )  # fmt: skip
    store_partial(dbias_ptr, dbias, tl.program_id(1), columns, N)


def tiled(x, bias, approximate):
    y = empty_contiguous(x)
    if y.numel():
        rows = as_rows(x)
        M, N = rows.shape
        each = elements_of_thread(M * N, x.device)
        vector = 16 // x.element_size()
        apart = N % 16 and rows.is_contiguous() and JOINED_TILE["BLOCK_N"] <= N < (2**31 - MANY) // vector
        joined = vector if apart and each > 2 else 1  # Triton knows multiples of 16, and here those of a vector
        grid: tuple[int, ...]
        if joined > 1:
            shape, groups = JOINED_TILE, M // joined
            parts = (groups, joined * N), (M - groups * joined, N)
            grid = (
                sum(triton.cdiv(down, shape["ROWS"]) * triton.cdiv(across, shape["BLOCK_N"]) for down, across in parts),
            )
        else:
            # Where a thread would have two elements it has four: one load, where rows lie so.
            _, shape = tiles_of(M, N, THREADS * each**2 if each <= 2 else MANY)
            groups, down, most = 0, triton.cdiv(M, shape["ROWS"]), LAUNCH_GRID[1]
            grid = triton.cdiv(N, shape["BLOCK_N"]), min(down, most), triton.cdiv(down, most)
        how = {"ACTIVATION": GELU[approximate], "EXACT": x.element_size() == 4, "JOINED": joined}
        arguments = (rows, as_columns(bias), y, rows.stride(0), M, N, groups)
        launch(bias_gelu_kernel, grid, *arguments, **how, **shape, num_warps=THREADS // WARP)
    return y


def columns(dy, x, bias, approximate):
    """Deterministic on one kind of GPU: which rows a program adds up, and in which order, is fixed."""
    dx = empty_contiguous(x)
    if not x.numel():
        return dx, bias.new_zeros(bias.shape)
    dy, x = as_rows(dy), as_rows(x)
    rows, width = x.shape
    joined = rows_joined(dy, x)
    M, N = rows // joined, joined * width
    tile, programs = columns_tile(M, N, x.device)
    sums = Partials(programs * joined, bias, alone=programs * joined == 1)
    how = {"ACTIVATION": GELU[approximate], "EXACT": x.element_size() == 4}
    strides = joined * dy.stride(0), joined * x.stride(0)
    joining = (width, rows % joined * width or None) if joined > 1 else (None, None)
    arguments = (dy, x, as_columns(bias), dx, sums.dweight, *strides, M, N, *joining)
    launch(bias_gelu_backward_kernel, (triton.cdiv(N, tile["BLOCK_N"]), programs), *arguments, **how, **tile)
    return dx, sums.add_up()[0]


def rows_joined(dy: torch.Tensor, x: torch.Tensor) -> int:
    """How many neighbouring rows make one that starts where loads of 16 bytes do, whatever its width, in memory without gaps:
    they have a partial sum each. Few rows stay alone."""
    M, N = x.shape
    joined = 16 // math.gcd(N, 16)  # Triton asks for multiples of 16
    if (
        all_at_once(M, N, x.device)
        or M // joined < 8
        or joined * N >= 2**31
        or not (dy.is_contiguous() and x.is_contiguous())
    ):
        return 1
    return joined


def all_at_once(M: int, N: int, device: torch.device) -> bool:
    """Whether one program asks for all rows of its columns, and then there is no second kernel."""
    return M <= FEW_ROWS and elements_of_thread(M * N, device) <= 2


def columns_tile(M: int, N: int, device: torch.device) -> tuple[dict[str, int], int]:
    """The tile of a program, and how many programs share the rows. STAGES is 0 where all rows are asked for at once."""
    height = triton.next_power_of_2(M)
    if all_at_once(M, N, device):
        block = max(256 // height, 8)
        return {"ROWS": height, "BLOCK_N": block, "STAGES": 0, "num_warps": min(height * block // WARP, 16)}, 1
    rows = min(height, 8)
    # 4 elements a thread: of more, a multiprocessor's registers hold too few threads. Of these, 6 programs.
    tile = {"ROWS": rows, "BLOCK_N": 1_024 // rows, "STAGES": 3, "num_warps": 8}
    programs = max(6 * multiprocessors(device) // triton.cdiv(N, tile["BLOCK_N"]), 1)
    return tile, min(triton.cdiv(M, TILES * rows), programs)


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
