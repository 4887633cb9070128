"""Level 4: products with few tiles and long sums, whose sums are split between programs: split-K.

A product with 64 rows and 4,096 columns has 64 tiles, which leave half of the multiprocessors without work. Cut along K, it is
a batch of shorter products, and their sum. Its parts are stored in float32 and added in one order, so that a GPU gives the same
bits at every run; one with another number of multiprocessors has other parts, and may round the last bit otherwise. With
atomics in place of the second kernel no run would have to equal another.
"""

import torch
import triton
import triton.language as tl

from kernels import machine
from kernels.ops.matmul import triton_descriptors, triton_tiles
from kernels.ops.matmul.triton_tiles import epilogue, large_tile
from kernels.triton.launch import launch
from kernels.triton.tiles import tile, tiles_of

# Chosen by counting bytes; no GPU has timed them yet.
LEAST = 512  # of K for a part
PROGRAMS = 2  # for each multiprocessor


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


def parts_of(M: int, N: int, K: int, itemsize: int, multiprocessors: int) -> int:
    """Into how many parts of one length K is cut, multiples of 16 so that vectors stay whole; 1 where tiles are enough."""
    sides = large_tile(M, N, K, itemsize)
    tiles = triton.cdiv(M, sides["BLOCK_M"]) * triton.cdiv(N, sides["BLOCK_N"])
    most = min(PROGRAMS * multiprocessors // tiles, K // LEAST)
    return next((parts for parts in range(most, 1, -1) if K % (16 * parts) == 0), 1)


def multiply(x, w, y, bias, dy, activation) -> None:
    (B, M, K), N = x.shape, w.shape[2]
    many = parts_of(M, N, K, x.itemsize, machine.multiprocessors(x.device)) if B == 1 else 1
    if many == 1:
        triton_descriptors.multiply(x, w, y, bias, dy, activation)
        return
    parts = torch.empty((many, M, N), dtype=torch.float32, device=x.device)
    xs, ws = x[0].unflatten(1, (many, -1)).transpose(0, 1), w[0].unflatten(0, (many, -1))
    triton_tiles.multiply(large_tile, xs, ws, parts, None, None, "none")
    bias, dy = (None if one is None else one.contiguous() for one in (bias, dy))
    programs, shape = tiles_of(M, N, 1_024)
    launch(matmul_join_kernel, (programs,), parts, bias, dy, y, M, N, PARTS=many, GELU=activation == "gelu", **shape)
