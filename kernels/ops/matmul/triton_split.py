"""Level 4: products whose tiles and sums are cut so that every multiprocessor has work: split-K.

A product with 64 rows and 4,096 columns has 16 tiles of 128×256, and 116 of 132 multiprocessors do nothing; one with 192 tiles
keeps all of them for two turns and most of them for one. Smaller tiles read more bytes a product, and sums cut along K are
stored in float32 and added by a second kernel. `best_cut` weighs these by the times below.

Parts are added in one order, so that a GPU gives the same bits at every run; one with another number of multiprocessors has
other parts, and may round the last bit otherwise. With atomics in place of the second kernel runs would not have to agree.
"""

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from kernels import machine
from kernels.ops.matmul import triton_descriptors, triton_tiles
from kernels.ops.matmul.triton_tiles import epilogue, large_tile
from kernels.triton.launch import launch
from kernels.triton.tiles import tile, tiles_of


class Cut(NamedTuple):
    BLOCK_M: int
    BLOCK_N: int
    BLOCK_K: int
    STAGES: int
    num_warps: int
    share: float  # of a multiprocessor's rate with the largest tiles
    most_parts: int  # a tile in float32 on its way out takes room, too


CUTS = (
    Cut(128, 256, 64, 3, 8, 1.0, 1),
    Cut(128, 128, 64, 4, 4, 0.87, 16),
    Cut(64, 256, 64, 4, 4, 0.87, 16),
    Cut(64, 128, 128, 3, 4, 0.6, 16),
    Cut(64, 64, 128, 4, 4, 0.4, 16),
)
"""Their shares fit what an H100 took at 20 shapes of a language model's layers (book/results/tried/matmul_tiles.json). Tiles of
192 columns, which are two products a step, are slower than those of 256 (book/results/tried/matmul_192_columns.json)."""
LEAST = 256  # of K for a part
FLOPS, BYTES, JOIN = 5.9e6, 3.0e6, 3.0
"""Of a multiprocessor and of the memory in a microsecond; microseconds that the second kernel takes."""


@triton.jit
def matmul_join_kernel(
    parts_ptr, bias_ptr, dy_ptr, y_ptr, M, N,
    PARTS: tl.constexpr, GELU: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows, columns, inside = tile(M, N, ROWS, BLOCK_N)
    y = tl.zeros((ROWS, BLOCK_N), tl.float32)
    for part in range(PARTS):
        y += tl.load(parts_ptr + (part * M + rows) * N + columns, mask=inside, other=0.0)
    y = epilogue(y, bias_ptr, dy_ptr, rows, columns, inside, N, GELU)
    tl.store(y_ptr + rows * N + columns, y, mask=inside)


def microseconds(cut: Cut, parts: int, M: int, N: int, K: int, multiprocessors: int) -> float:
    """What a product may take: turns of all multiprocessors, or its bytes, and the sum of its parts."""
    turns = triton.cdiv(triton.cdiv(M, cut.BLOCK_M) * triton.cdiv(N, cut.BLOCK_N) * parts, multiprocessors)
    product = turns * 2 * cut.BLOCK_M * cut.BLOCK_N * triton.cdiv(K, parts) / (FLOPS * cut.share)
    memory = 2 * (M * K + K * N + M * N) / BYTES
    join = JOIN + 4 * 2 * parts * M * N / BYTES if parts > 1 else 0.0
    return max(product, memory) + join


@functools.cache
def best_cut(M: int, N: int, K: int, multiprocessors: int) -> tuple[Cut, int]:
    """The tile and the number of parts with the least `microseconds`."""
    cuts = [cut for cut in CUTS if 2 * max(M, 64) > cut.BLOCK_M]
    every = ((cut, parts) for cut in cuts for parts in range(1, min(cut.most_parts, max(K // LEAST, 1)) + 1))
    return min(every, key=lambda one: microseconds(one[0], one[1], M, N, K, multiprocessors))


def multiply(x, w, y, bias, dy, activation) -> None:
    if not triton_descriptors.has_descriptors(x, w, y):
        triton_tiles.multiply(large_tile, x, w, y, bias, dy, activation)
        return
    (_, M, K), N = x.shape, w.shape[2]
    cut, parts = best_cut(M, N, K, machine.multiprocessors(x.device))
    sides = {"GROUP_M": 8, **{name: getattr(cut, name) for name in Cut._fields[:5]}}
    out = y[0] if parts == 1 else torch.empty((parts, M, N), dtype=torch.float32, device=x.device)
    triton_descriptors.multiply_by_descriptors(x[0], w[0], out, bias, dy, activation, sides, parts)
    if parts == 1:
        return
    bias, dy = (None if one is None else one.contiguous() for one in (bias, dy))
    programs, shape = tiles_of(M, N, 1_024)
    launch(matmul_join_kernel, (programs,), out, bias, dy, y, M, N, PARTS=parts, GELU=activation == "gelu", **shape)
