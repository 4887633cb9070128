"""Level 4: sums, means and largest values of rows or of columns in Triton, their backward, and the rungs.

One kernel for both directions: it goes over K values for each of P results, and strides say where they lie.
"""

import triton
import triton.language as tl

from kernels.arguments import empty_contiguous
from kernels.ops.reduction import triton_parts
from kernels.ops.reduction.arguments import factor, matrix, outputs, sizes
from kernels.rung import rung
from kernels.triton import tiles
from kernels.triton.launch import launch


@triton.jit
def reduction_kernel(
    x_ptr, y_ptr, index_ptr, p_stride, k_stride, P, K, scale,
    MAX: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    p = tl.program_id(0).to(tl.int64) * BLOCK_P + tl.arange(0, BLOCK_P)
    lanes = tl.arange(0, BLOCK_K)[None, :]
    x_ptr += p[:, None] * p_stride
    if MAX:
        # Of each lane: the largest value and its place, and the place of its first NaN, which tl.max would pass over.
        largest = tl.full((BLOCK_P, BLOCK_K), -float("inf"), tl.float32)
        at = tl.zeros((BLOCK_P, BLOCK_K), tl.int32) + lanes
        nan_at = tl.zeros((BLOCK_P, BLOCK_K), tl.int32) + K
        for start in range(0, K, BLOCK_K):
            k = start + lanes
            inside = (p[:, None] < P) & (k < K)
            x = tl.load(x_ptr + k.to(tl.int64) * k_stride, mask=inside, other=-float("inf")).to(tl.float32)
            nan_at = tl.minimum(nan_at, tl.where(x != x, k, K))
            at = tl.where(x > largest, k, at)
            largest = tl.where(x > largest, x, largest)
        y = tl.max(largest, 1)
        first = tl.min(tl.where(largest == y[:, None], at, K), 1)
        first_nan = tl.min(nan_at, 1)
        tl.store(y_ptr + p, tl.where(first_nan < K, float("nan"), y), mask=p < P)
        tl.store(index_ptr + p, tl.where(first_nan < K, first_nan, first).to(tl.int64), mask=p < P)
    else:
        sums = tl.zeros((BLOCK_P, BLOCK_K), tl.float32)
        for start in range(0, K, BLOCK_K):
            k = start + lanes
            inside = (p[:, None] < P) & (k < K)
            sums += tl.load(x_ptr + k.to(tl.int64) * k_stride, mask=inside, other=0.0).to(tl.float32)
        tl.store(y_ptr + p, tl.sum(sums, 1) * scale, mask=p < P)


@triton.jit
def reduction_backward_kernel(
    dy_ptr, index_ptr, dx_ptr, N, scale, MAX: tl.constexpr, FIRST: tl.constexpr, BLOCK_N: tl.constexpr
):
    row, columns = tl.program_id(0), tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    results = columns if FIRST else tl.zeros((BLOCK_N,), tl.int32) + row
    places = tl.zeros((BLOCK_N,), tl.int32) + row if FIRST else columns
    dx = tl.load(dy_ptr + results, mask=columns < N, other=0.0).to(tl.float32) * scale
    if MAX:
        dx = tl.where(tl.load(index_ptr + results, mask=columns < N, other=-1) == places, dx, 0.0)
    tl.store(dx_ptr + row.to(tl.int64) * N + columns, dx, mask=columns < N)


def strided(x, kind, dim):
    y, index, some = outputs(x, kind, dim)
    if some:
        rows = matrix(x, dim)
        (M, N), (row, column) = rows.shape, (rows.stride(0), 1)
        P, K, strides = (N, M, (column, row)) if dim == 0 else (M, N, (row, column))
        block = min(triton.next_power_of_2(K), 64 if dim == 0 else 1_024)
        high = 32 if dim == 0 else max(min(1_024 // block, 16), 1)
        options = {"BLOCK_P": high, "BLOCK_K": block, "MAX": kind == "max"}
        arguments = (rows, y, index, *strides, P, K, factor(kind, K))
        launch(reduction_kernel, (triton.cdiv(P, high),), *arguments, **options)
    return y, index


def spread(dy, x, index, kind, dim):
    dx = empty_contiguous(x)
    if x.numel():
        M, N = sizes(x, dim)
        block = min(triton.next_power_of_2(N), 2_048)
        options = {"MAX": kind == "max", "FIRST": dim == 0, "BLOCK_N": block}
        arguments = (dy.contiguous(), index.contiguous(), dx, N, factor(kind, M if dim == 0 else N))
        launch(reduction_backward_kernel, (M, triton.cdiv(N, block)), *arguments, **options)
    return dx


FORWARD = (
    rung(4, "strided", strided, "one kernel for rows and columns"),
    rung(4, "parts", triton_parts.parts, "several 16-byte loads a thread; few rows shared by programs"),
)
BACKWARD = (
    rung(4, "spread", spread, "one program a part of a row"),
    rung(4, "spread-tiles", triton_parts.spread_tiles, "one program a tile, for which dy is read once", tiles),
)
