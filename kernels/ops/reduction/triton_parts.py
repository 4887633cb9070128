"""Level 4: reductions by tiles of several 16-byte loads a thread, and their backward by tiles.

Where there are few rows, or few columns, each is divided among programs, and a second kernel joins what they know of their
parts, always in the same order. Of a largest value and its place that is one integer, of which the largest wins: the order of
the float's bits above, how early it comes below.
"""

import torch
import triton
import triton.language as tl

from kernels.arguments import empty_contiguous
from kernels.machine import multiprocessors
from kernels.ops.reduction.arguments import factor, matrix, outputs, sizes
from kernels.triton.launch import launch
from kernels.triton.tiles import tile, tiles_of

TILE_BYTES = 8_192  # of a program of 4 warps
LOADS = 4  # vectors of a thread in it
ACROSS_BYTES = 256  # of neighbouring columns, where columns are reduced
PROGRAMS = 8  # of a multiprocessor
JOINED = 2_048  # parts that a program joins
LAST = tl.constexpr(0x7FFFFFFF)  # the largest order, that of NaN; and beyond all places
LOWEST = tl.constexpr(-(0x7FFFFFFF << 32))


@triton.jit
def order(bits):
    """The bits of a float as an integer that is larger for larger floats, and back."""
    return bits ^ ((bits >> 31) & LAST)


@triton.jit
def first_largest(largest, at):
    """Of each row of lanes, as one integer. Adding 0 makes -0 the 0 that it equals."""
    orders = tl.where(largest == largest, order((largest + 0.0).to(tl.int32, bitcast=True)), LAST)
    most = tl.max(orders, 1)
    first = tl.min(tl.where(orders == most[:, None], at, LAST), 1)
    return (most.to(tl.int64) << 32) | (first ^ LAST).to(tl.int64)


@triton.jit
def give(known, y_ptr, index_ptr, p, P, scale, MAX: tl.constexpr):
    if MAX:
        y = order((known >> 32).to(tl.int32)).to(tl.float32, bitcast=True)
        tl.store(y_ptr + p, y, mask=p < P)
        tl.store(index_ptr + p, (known & LAST) ^ LAST, mask=p < P)
    else:
        tl.store(y_ptr + p, known * scale, mask=p < P)


@triton.jit
def reduction_parts_kernel(
    x_ptr, y_ptr, index_ptr, parts_ptr, p_stride, k_stride, P, K, scale,
    MAX: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr, LOADS: tl.constexpr,
):  # fmt: skip
    p = tl.program_id(0).to(tl.int64) * BLOCK_P + tl.arange(0, BLOCK_P)
    part, step = tl.program_id(1), tl.num_programs(1) * LOADS * BLOCK_K
    first = part * LOADS * BLOCK_K
    lanes = tl.arange(0, BLOCK_K)[None, :]
    x_ptr += p[:, None] * p_stride
    if MAX:
        largest = tl.full((BLOCK_P, BLOCK_K), -float("inf"), tl.float32)
        at = tl.zeros((BLOCK_P, BLOCK_K), tl.int32) + first + lanes
        for start in range(first, K, step):
            for load in tl.static_range(LOADS):  # independent: all on their way at once
                k = start + load * BLOCK_K + lanes
                inside = (p[:, None] < P) & (k < K)
                x = tl.load(x_ptr + k.to(tl.int64) * k_stride, mask=inside, other=-float("inf")).to(tl.float32)
                # Not "at most" is "larger" or a NaN, of which the first stays.
                larger = (largest == largest) & ~(x <= largest)
                at = tl.where(larger, k, at)
                largest = tl.where(larger, x, largest)
        known = first_largest(largest, at)
    else:
        sums = tl.zeros((BLOCK_P, BLOCK_K), tl.float32)
        for start in range(first, K, step):
            for load in tl.static_range(LOADS):
                k = start + load * BLOCK_K + lanes
                inside = (p[:, None] < P) & (k < K)
                sums += tl.load(x_ptr + k.to(tl.int64) * k_stride, mask=inside, other=0.0).to(tl.float32)
        known = tl.sum(sums, 1)
    if parts_ptr is None:
        give(known, y_ptr, index_ptr, p, P, scale, MAX)
    else:
        tl.store(parts_ptr + part.to(tl.int64) * P + p, known, mask=p < P)


@triton.jit
def reduction_joined_kernel(
    parts_ptr, y_ptr, index_ptr, P, S, scale, MAX: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_S: tl.constexpr
):
    p, s = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P), tl.arange(0, BLOCK_S)[None, :]
    inside = (p[:, None] < P) & (s < S)
    parts = tl.load(parts_ptr + s.to(tl.int64) * P + p[:, None], mask=inside, other=LOWEST if MAX else 0.0)
    give(tl.max(parts, 1) if MAX else tl.sum(parts, 1), y_ptr, index_ptr, p, P, scale, MAX)


@triton.jit
def reduction_spread_kernel(
    dy_ptr, index_ptr, dx_ptr, M, N, scale,
    MAX: tl.constexpr, FIRST: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows, columns, inside = tile(M, N, ROWS, BLOCK_N)
    results, places, exists = (columns, rows, columns < N) if FIRST else (rows, columns, rows < M)
    dx = tl.load(dy_ptr + results, mask=exists, other=0.0).to(tl.float32) * scale
    if MAX:
        # In 64 bits the comparisons would take more registers than there are.
        index = tl.load(index_ptr + results, mask=exists, other=-1).to(tl.int32)
        dx = tl.where(index == places.to(tl.int32), dx, 0.0)
    tl.store(dx_ptr + rows * N + columns, dx, mask=inside)


def shape(P, K, itemsize, dim):
    """A tile of LOADS vectors a thread: as many loads one after the other as K has, beside each other where K is short."""
    elements, vector = TILE_BYTES // itemsize, TILE_BYTES // (LOADS * itemsize)
    wide = min(triton.next_power_of_2(P), ACROSS_BYTES // itemsize) if dim == 0 else 1
    block = min(triton.next_power_of_2(K), vector // wide)
    loads = min(triton.next_power_of_2(triton.cdiv(K, block)), LOADS)
    if dim != 0:
        wide = min(triton.next_power_of_2(P), elements // (block * loads))
    return {"BLOCK_P": wide, "BLOCK_K": block, "LOADS": loads}


def parts(x, kind, dim):
    y, index, some = outputs(x, kind, dim)
    if not some:
        return y, index
    rows = matrix(x, dim)
    (M, N), row, largest = rows.shape, rows.stride(0), kind == "max"
    P, K, strides = (N, M, (1, row)) if dim == 0 else (M, N, (row, 1))
    block = shape(P, K, x.element_size(), dim)
    programs = triton.cdiv(P, block["BLOCK_P"])
    most = triton.cdiv(K, block["BLOCK_K"] * block["LOADS"])
    S = min(max(PROGRAMS * multiprocessors(x.device) // programs, 1), most)
    dtype = torch.int64 if largest else torch.float32
    known = torch.empty((S, P), dtype=dtype, device=x.device) if S > 1 else None
    scale = factor(kind, K)
    arguments = (rows, y, index, known, *strides, P, K, scale)
    launch(reduction_parts_kernel, (programs, S), *arguments, MAX=largest, **block)
    if known is not None:
        joined = {"BLOCK_S": triton.next_power_of_2(S)}
        joined["BLOCK_P"] = max(min(JOINED // joined["BLOCK_S"], triton.next_power_of_2(P)), 1)
        grid = (triton.cdiv(P, joined["BLOCK_P"]),)
        launch(reduction_joined_kernel, grid, known, y, index, P, S, scale, MAX=largest, **joined)
    return y, index


def spread_tiles(dy, x, index, kind, dim):
    dx = empty_contiguous(x)
    if x.numel():
        M, N = sizes(x, dim)
        tiles, shape = tiles_of(M, N, TILE_BYTES // x.element_size())
        arguments = (dy.contiguous(), index.contiguous(), dx, M, N, factor(kind, M if dim == 0 else N))
        launch(reduction_spread_kernel, (tiles,), *arguments, MAX=kind == "max", FIRST=dim == 0, **shape)
    return dx
