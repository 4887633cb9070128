"""Level 4: layer norm in Triton, forward.

Rungs, plain to best:
    row       one program a row: the row is read once, kept in registers, and written once.
    rows      narrow rows several at a time.
    passes    wide rows are read again from cache instead of being kept: programs that hold no row leave registers for
              another program on the same multiprocessor, whose loads fill the time in which this one adds up.
              Few rows of more than 16,384 columns, and long ones of odd widths, are divided among programs
              (triton_split.py). Where the GPU has room for all rows at a time, weight and bias are asked for with x: one
              wait for memory, not two.
Rows too wide for the registers are read in passes on every rung.

Each program computes, in float32, y = (x - mean) / sqrt(variance + eps) · weight + bias for rows of an M×N matrix.
"""

from collections.abc import Callable
from pathlib import Path

import torch
import triton
import triton.language as tl

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.operation import Variant
from kernels.ops.layer_norm.triton_split import by_parts
from kernels.row_parts import at_once, few_rows
from kernels.triton import row_parts, row_tiles
from kernels.triton.launch import launch
from kernels.triton.row_tiles import NARROW, in_steps, narrow_tile, row_warps
from kernels.unsupported import needs_interpreter
from kernels.vectors import pack_size

# 32,768 float32 values are 32 registers for each of 1,024 threads, which have 64; twice as many would spill.
WIDEST_IN_REGISTERS = 32_768
WIDEST_KEPT = 8_192  # beyond it a row takes so many registers that its multiprocessor has none for a second program
WIDEST_OF_FEW = 16_384  # columns that a program keeps where that does not matter


@triton.jit
def layer_norm_row_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, row_stride, N, eps, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_N)
    inside = columns < N
    x = tl.load(x_ptr + row * row_stride + columns, mask=inside, other=0.0).to(tl.float32)
    # A plain / is approximate on a GPU: for a row of equal values it would leave x - mean a little off 0.
    mean = tl.div_rn(tl.sum(x), tl.cast(N, tl.float32))
    # Lanes beyond the row hold -mean by now, not 0: they must not enter the sum of squares.
    centred = tl.where(inside, x - mean, 0.0)
    variance = tl.sum(centred * centred) / N
    y = centred / tl.sqrt(variance + eps)
    if weight_ptr is not None:
        y *= tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    if bias_ptr is not None:
        y += tl.load(bias_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * N + columns, y, mask=inside)


@triton.jit
def layer_norm_rows_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, row_stride, M, N, eps, ROWS: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    columns = tl.arange(0, BLOCK_N)[None, :]
    inside = (rows < M) & (columns < N)
    x = tl.load(x_ptr + rows * row_stride + columns, mask=inside, other=0.0).to(tl.float32)
    mean = tl.div_rn(tl.sum(x, 1), tl.cast(N, tl.float32))[:, None]
    centred = tl.where(inside, x - mean, 0.0)
    variance = (tl.sum(centred * centred, 1) / N)[:, None]
    y = centred / tl.sqrt(variance + eps)
    if weight_ptr is not None:
        y *= tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    if bias_ptr is not None:
        y += tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    tl.store(y_ptr + rows * N + columns, y, mask=inside)


@triton.jit
def layer_norm_row_in_steps_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, row_stride, N, eps, STEP: tl.constexpr, BLOCK_N: tl.constexpr
):
    row_stride, N = in_steps(row_stride, STEP), in_steps(N, STEP)
    layer_norm_row_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, row_stride, N, eps, BLOCK_N)


@triton.jit
def layer_norm_rows_in_steps_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, row_stride, M, N, eps,
    STEP: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    row_stride, N = in_steps(row_stride, STEP), in_steps(N, STEP)
    layer_norm_rows_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, row_stride, M, N, eps, ROWS, BLOCK_N)


@triton.jit
def layer_norm_few_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, row_stride, N, eps, STEP: tl.constexpr, BLOCK_N: tl.constexpr
):
    row_stride, N = in_steps(row_stride, STEP), in_steps(N, STEP)
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_N)
    inside = columns < N
    x = tl.load(x_ptr + row * row_stride + columns, mask=inside, other=0.0).to(tl.float32)
    # Not where they are needed: no compiler moves a load across the barriers of a sum.
    weight, bias = 1.0, 0.0
    if weight_ptr is not None:
        weight = tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    left = tl.where(inside, x - tl.div_rn(tl.sum(x), tl.cast(N, tl.float32)), 0.0)
    # What the rounded mean is off, which a mean far from 0 makes large, is the mean of what is left.
    rest = tl.div_rn(tl.sum(left), tl.cast(N, tl.float32))
    variance = tl.sum(left * left) / N - rest * rest
    tl.store(y_ptr + row * N + columns, (left - rest) / tl.sqrt(variance + eps) * weight + bias, mask=inside)


@triton.jit
def layer_norm_passes_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, row_stride, N: tl.constexpr, eps, STEP: tl.constexpr, BLOCK_N: tl.constexpr
):
    # N is known to the compiler, which can then unroll the loops and have the loads of several blocks on their way.
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * in_steps(row_stride, STEP)
    y_ptr += row * N
    lanes = tl.arange(0, BLOCK_N)

    total = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        inside = start + lanes < N
        # What is read again is asked to stay in cache, and what is read for the last time to go first.
        total += tl.load(x_ptr + start + lanes, mask=inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
    mean = tl.div_rn(tl.sum(total), tl.cast(N, tl.float32))

    squares = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        inside = start + lanes < N
        x = tl.load(x_ptr + start + lanes, mask=inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
        centred = tl.where(inside, x - mean, 0.0)
        squares += centred * centred
    rstd = 1.0 / tl.sqrt(tl.sum(squares) / N + eps)

    for start in range(0, N, BLOCK_N):
        columns = start + lanes
        inside = columns < N
        x = tl.load(x_ptr + columns, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
        y = (x - mean) * rstd
        if weight_ptr is not None:
            y *= tl.load(weight_ptr + columns, mask=inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
        if bias_ptr is not None:
            y += tl.load(bias_ptr + columns, mask=inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
        # y is not read again here: its place in the cache is the first to be given up.
        tl.store(y_ptr + columns, y, mask=inside, cache_modifier=".cs")


def by_row(x, weight, bias, y, eps, kernel=layer_norm_row_kernel, **known: int) -> None:
    M, N = x.shape
    # More registers than a bfloat16 has float32, and the addresses of values that are loaded alone.
    values = 16 if x.dtype == torch.float32 else 32 if N % 8 else 64
    tile = {"BLOCK_N": triton.next_power_of_2(N), "num_warps": row_warps(M, N, x.device, values)}
    launch(kernel, (M,), x, weight, bias, y, x.stride(0), N, eps, **known, **tile)


def by_rows(x, weight, bias, y, eps, kernel=layer_norm_rows_kernel, **known: int) -> None:
    M, N = x.shape
    tile = narrow_tile(N)
    arguments = (x, weight, bias, y, x.stride(0), M, N, eps)
    launch(kernel, (triton.cdiv(M, tile["ROWS"]),), *arguments, **known, **tile)


def in_vectors(by: Callable, kernel: Callable) -> Callable:
    """The same by a kernel that knows what is a multiple of which power of two, and so where vectors are."""

    def run(x, weight, bias, y, eps) -> None:
        by(x, weight, bias, y, eps, kernel, STEP=pack_size(x.shape[1], x, weight, bias, y))

    return run


def by_passes(x, weight, bias, y, eps) -> None:
    M, N = x.shape
    # With 32 registers a thread a multiprocessor holds two rows, whose 128 KiB its first cache keeps for the later passes.
    step = pack_size(N, x, weight, bias, y)
    tile = {"STEP": step, "BLOCK_N": 8_192, "num_warps": min(triton.next_power_of_2(N) // 1_024, 32)}
    launch(layer_norm_passes_kernel, (M,), x, weight, bias, y, x.stride(0), N, eps, **tile)


def run(choose: Callable[[int], Callable], x, weight, bias, eps, may_split: bool = False) -> torch.Tensor:
    y = empty_contiguous(x)
    if y.numel():
        matrix = as_rows(x)
        M, N = matrix.shape
        # Rows that do not start at multiples of 16 bytes are loaded value by value, which two passes do less often than three.
        split = may_split and WIDEST_KEPT < N and (N % 8 != 0 or few_rows(M, x.device))
        (by_parts if split else choose(N))(matrix, as_columns(weight), as_columns(bias), y, eps)
    return y


def row(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    return run(lambda N: by_row if N <= WIDEST_IN_REGISTERS else by_passes, x, weight, bias, eps)


def rows(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    return run(
        lambda N: by_rows if N <= NARROW else by_row if N <= WIDEST_IN_REGISTERS else by_passes, x, weight, bias, eps
    )


def passes(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    M, N = x.shape[:-1].numel(), x.shape[-1]
    vectors = N % 8 == 0  # else their addresses take registers, too
    if at_once(M, N, x.device) if N <= WIDEST_KEPT else N <= WIDEST_OF_FEW and vectors and few_rows(M, x.device):
        return run(lambda N: in_vectors(by_row, layer_norm_few_kernel), x, weight, bias, eps)
    narrow = by_rows, layer_norm_rows_in_steps_kernel
    kept = in_vectors(*(narrow if N <= NARROW else (by_row, layer_norm_row_in_steps_kernel)))
    return run(lambda N: kept if N <= WIDEST_KEPT else by_passes, x, weight, bias, eps, may_split=True)


SOURCE = (Path(__file__), Path(row_tiles.__file__))
SPLIT = (*SOURCE, Path(__file__).with_name("triton_split.py"), Path(row_parts.__file__))
FORWARD = (
    Variant(4, "row", row, "one program a row, the row kept in registers", SOURCE, needs_interpreter),
    Variant(4, "rows", rows, "narrow rows several at a time", SOURCE, needs_interpreter),
    Variant(4, "passes", passes, "wide rows read again from cache, not kept", SPLIT, needs_interpreter),
)
