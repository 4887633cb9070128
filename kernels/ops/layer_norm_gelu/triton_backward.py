"""Level 4: layer norm and GELU in Triton, backward. With n_ij = (x_ij - mean_i) · rstd_i, what comes through GELU, dh_ij =
dy_ij · gelu'(n_ij · weight_j + bias_j), and g_ij = dh_ij · weight_j, as for layer norm:

    dx_ij     = rstd_i · (g_ij - 1/N · sum_k g_ik - n_ij · 1/N · sum_k g_ik n_ik)
    dweight_j = sum_i dh_ij · n_ij,    dbias_j = sum_i dh_ij

Rungs, plain to best:
    columns     a kernel for the sums along rows, another that takes the matrix in tiles for all else: dy and x are read twice.
    prefetch    a few programs, each of which walks over many rows, reads them once and keeps its sums of columns in
                registers, while the next rows are on their way.
Rows too wide for the registers go to `columns`.
"""

from pathlib import Path

import torch
import triton
import triton.language as tl

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.machine import multiprocessors
from kernels.operation import Variant
from kernels.ops.layer_norm.triton_backward import prefetch_parameters, whole
from kernels.triton import activations, column_sums, row_tiles
from kernels.triton.activations import activated
from kernels.triton.column_sums import Partials, store_partials
from kernels.triton.launch import launch
from kernels.triton.row_tiles import in_steps, row_warps
from kernels.unsupported import needs_interpreter
from kernels.vectors import pack_size

WIDEST = 4_096  # columns that a program has registers for


@triton.jit
def layer_norm_gelu_backward_statistics_kernel(
    dy_ptr, x_ptr, weight_ptr, bias_ptr, statistics_ptr, dy_stride, x_stride, N, eps,
    EXACT: tl.constexpr, STEP: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The mean, rstd, and the means of g and of g · n, of each row."""
    dy_stride, x_stride, N = in_steps(dy_stride, STEP), in_steps(x_stride, STEP), in_steps(N, STEP)
    row, lanes = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK_N)
    count = tl.cast(N, tl.float32)
    dy_ptr += row * dy_stride
    x_ptr += row * x_stride
    total = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        total += tl.load(x_ptr + start + lanes, mask=start + lanes < N, other=0.0).to(tl.float32)
    mean = tl.div_rn(tl.sum(total), count)
    squares = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        inside = start + lanes < N
        x = tl.load(x_ptr + start + lanes, mask=inside, other=0.0).to(tl.float32)
        centred = tl.where(inside, x - mean, 0.0)
        squares += centred * centred
    rstd = 1.0 / tl.sqrt(tl.sum(squares) / N + eps)
    g_sum, gn_sum = tl.zeros((BLOCK_N,), tl.float32), tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        columns, inside = start + lanes, start + lanes < N
        n = (tl.load(x_ptr + columns, mask=inside, other=0.0).to(tl.float32) - mean) * rstd
        dy = tl.load(dy_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        bias = tl.load(bias_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        _, slope = activated(n * weight + bias, "gelu", EXACT)
        g = dy * slope * weight  # 0 beyond the row, as the weight
        g_sum += g
        gn_sum += g * n
    statistics_ptr += 4 * row
    tl.store(statistics_ptr, mean)
    tl.store(statistics_ptr + 1, rstd)
    tl.store(statistics_ptr + 2, tl.sum(g_sum) / N)
    tl.store(statistics_ptr + 3, tl.sum(gn_sum) / N)


@triton.jit
def layer_norm_gelu_backward_columns_kernel(
    dy_ptr, x_ptr, weight_ptr, bias_ptr, statistics_ptr, dx_ptr, dweight_ptr, dbias_ptr, dy_stride, x_stride, M, N,
    EXACT: tl.constexpr, STEP: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    dy_stride, x_stride, N = in_steps(dy_stride, STEP), in_steps(x_stride, STEP), in_steps(N, STEP)
    columns = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    weight = tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    dweight, dbias = tl.zeros((ROWS, BLOCK_N), tl.float32), tl.zeros((ROWS, BLOCK_N), tl.float32)
    for start in range(tl.program_id(1) * ROWS, M, tl.num_programs(1) * ROWS):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        inside = (rows < M) & (columns < N)
        dy = tl.load(dy_ptr + rows * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + rows * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(statistics_ptr + 4 * rows, mask=rows < M, other=0.0)
        rstd = tl.load(statistics_ptr + 4 * rows + 1, mask=rows < M, other=0.0)
        mean_g = tl.load(statistics_ptr + 4 * rows + 2, mask=rows < M, other=0.0)
        mean_gn = tl.load(statistics_ptr + 4 * rows + 3, mask=rows < M, other=0.0)
        n = (x - mean) * rstd
        _, slope = activated(n * weight + bias, "gelu", EXACT)
        dh = dy * slope
        tl.store(dx_ptr + rows * N + columns, rstd * (dh * weight - mean_g - n * mean_gn), mask=inside)
        dweight += dh * n
        dbias += dh
    store_partials(dweight_ptr, dbias_ptr, dweight, dbias, tl.program_id(1), columns, N)


@triton.jit
def layer_norm_gelu_backward_rows_kernel(
    dy_ptr, x_ptr, weight_ptr, bias_ptr, dx_ptr, dweight_ptr, dbias_ptr, dy_stride, x_stride, M, N, eps,
    EXACT: tl.constexpr, STEP: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    dy_stride, x_stride, N = in_steps(dy_stride, STEP), in_steps(x_stride, STEP), in_steps(N, STEP)
    columns = tl.arange(0, BLOCK_N)[None, :]
    weight = tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    dweight, dbias = tl.zeros((ROWS, BLOCK_N), tl.float32), tl.zeros((ROWS, BLOCK_N), tl.float32)
    for start in tl.range(tl.program_id(0) * ROWS, M, tl.num_programs(0) * ROWS, num_stages=4):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        inside = (rows < M) & (columns < N)
        dy = tl.load(dy_ptr + rows * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + rows * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
        mean = tl.div_rn(tl.sum(x, 1), tl.cast(N, tl.float32))[:, None]
        centred = tl.where(inside, x - mean, 0.0)
        rstd = (1.0 / tl.sqrt(tl.sum(centred * centred, 1) / N + eps))[:, None]
        n = centred * rstd
        _, slope = activated(n * weight + bias, "gelu", EXACT)
        dh = dy * slope
        g = dh * weight
        mean_g, mean_gn = (tl.sum(g, 1) / N)[:, None], (tl.sum(g * n, 1) / N)[:, None]
        # dx of a row of one column is 0, but a product fused into g - mean_g leaves its rounding there.
        scale = tl.where(N > 1, rstd, 0.0)
        tl.store(dx_ptr + rows * N + columns, scale * (g - mean_g - n * mean_gn), mask=inside)
        dweight += dh * n
        dbias += dh
    store_partials(dweight_ptr, dbias_ptr, dweight, dbias, tl.program_id(0), columns, N)


def tile_of(M: int, N: int) -> dict[str, int]:
    """All rows where one program takes them. Else narrow rows two or four at a time, 16 values of each of their matrices and
    sums a thread; as many programs as have registers for that."""
    if whole(M, N):
        tile = prefetch_parameters(M, N)
        return {name: tile[name] for name in ("ROWS", "BLOCK_N", "num_warps", "per_multiprocessor")}
    block = triton.next_power_of_2(N)
    rows = 1 if block > 1_024 else 2 if block > 256 else 4
    warps = max(rows * block // 512, 1)
    return {"ROWS": rows, "BLOCK_N": block, "num_warps": warps, "per_multiprocessor": max(12 // warps, 1)}


def columns(dy, x, weight, bias, eps):
    """Deterministic on one kind of GPU: which rows a program adds up, and in which order, is fixed."""
    dx, exact = empty_contiguous(x), x.dtype == torch.float32
    if not x.numel():
        return dx, torch.zeros_like(weight), torch.zeros_like(bias)
    dy, x, weight, bias = as_rows(dy), as_rows(x), as_columns(weight), as_columns(bias)
    M, N = x.shape
    statistics, strides = x.new_empty((M, 4), dtype=torch.float32), (dy.stride(0), x.stride(0))
    # A wide row takes many steps: many threads make them fewer, eight values each.
    warps = max(row_warps(M, N, x.device), 4)
    known = {"EXACT": exact, "STEP": pack_size(N, dy, x, weight, bias, dx)}
    tile = known | {"BLOCK_N": min(triton.next_power_of_2(N), 256 * warps), "num_warps": warps}
    given = (dy, x, weight, bias, statistics)
    launch(layer_norm_gelu_backward_statistics_kernel, (M,), *given, *strides, N, eps, **tile)
    across = triton.cdiv(N, 512)
    # Tiles of 4 rows, 16 values a thread: registers for 5 programs a multiprocessor.
    sums = Partials(min(triton.cdiv(M, 4), max(5 * multiprocessors(x.device) // across, 1)), weight, bias)
    tensors, tile = (*given, dx, sums.dweight, sums.dbias), known | {"ROWS": 4, "BLOCK_N": 512, "num_warps": 4}
    launch(layer_norm_gelu_backward_columns_kernel, (across, sums.programs), *tensors, *strides, M, N, **tile)
    return dx, *sums.add_up()


def prefetch(dy, x, weight, bias, eps):
    """Deterministic on one kind of GPU, as `columns`."""
    if not x.numel() or x.shape[-1] > WIDEST:
        return columns(dy, x, weight, bias, eps)
    dx, exact = empty_contiguous(x), x.dtype == torch.float32
    dy, x, weight, bias = as_rows(dy), as_rows(x), as_columns(weight), as_columns(bias)
    M, N = x.shape
    tile = tile_of(M, N)
    programs = min(triton.cdiv(M, tile["ROWS"]), tile.pop("per_multiprocessor") * multiprocessors(x.device))
    sums = Partials(programs, weight, bias, alone=whole(M, N))
    arguments = (dy, x, weight, bias, dx, sums.dweight, sums.dbias, dy.stride(0), x.stride(0), M, N, eps)
    tile |= {"EXACT": exact, "STEP": pack_size(N, dy, x, weight, bias, dx)}
    launch(layer_norm_gelu_backward_rows_kernel, (programs,), *arguments, **tile)
    return dx, *sums.add_up()


SOURCE = (Path(__file__), Path(activations.__file__), Path(column_sums.__file__), Path(row_tiles.__file__))
BACKWARD = (
    Variant(4, "columns", columns, "statistics by rows, then all else by columns", SOURCE, needs_interpreter),
    Variant(4, "prefetch", prefetch, "rows read once, the next on their way meanwhile", SOURCE, needs_interpreter),
)
