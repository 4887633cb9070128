"""Level 4 by TMA descriptors, for Hopper GPUs, the first that have the Tensor Memory Accelerator.

The kernels are those of triton_forward.py and triton_backward.py; they are given descriptors in place of pointers. One thread
asks for a tile, and hardware works out the addresses and writes it to shared memory as the tensor cores read it. Addresses take
no registers, so that four warps hold tiles of 128 queries: two programs fit in a multiprocessor, and while one makes weights of
scores, the other's products run.

Descriptors want rows of features that begin at multiples of 16 bytes. Other tensors, float32 and other GPUs are left to the
rungs before.
"""

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels import machine
from kernels.ops.attention import triton_backward, triton_forward, triton_tiles
from kernels.ops.attention.triton_backward import query_statistics, walk_keys, walk_queries
from kernels.ops.attention.triton_tiles import beyond_grid, by_sequences, tile
from kernels.rung import rung
from kernels.vectors import heads_in_vectors

SHARED_BYTES = 200 << 10  # of the largest tiles
FARTHEST_BYTES = 1 << 40  # from one matrix to the next, for TMA
FORWARD_TILES = {64: (64, 128, 4, 3), 128: (128, 64, 4, 2), 256: (128, 64, 8, 2)}
DQ_TILES = {64: (128, 64, 4, 3), 128: (128, 64, 8, 3), 256: (64, 32, 4, 3)}
DKDV_TILES = {64: (64, 64, 4, 3), 128: (128, 64, 8, 3), 256: (64, 64, 8, 2)}
BOUNDED_DKDV_TILES = DKDV_TILES | {128: (64, 32, 4, 3)}
"""By features: rows of a program's own, rows that it walks over, warps, stages. Bounded: under a causal mask or in a window,
where a walk is two short ones. What others take stands in book/results/tried/attention_descriptors.json."""


def fits(*tensors: torch.Tensor) -> bool:
    """Whether descriptors can tell where these matrices lie, on a GPU that has TMA and room for the tiles."""
    of = tensors[0]
    lines = all(one.stride(3) == 1 and 0 not in one.stride() for one in tensors) and heads_in_vectors(*tensors)
    lines = lines and all(max(one.stride()) * of.itemsize < FARTHEST_BYTES for one in tensors)
    gpu = machine.target(of.device)
    # The tiles are timed on Hopper alone.
    hopper = "TMA" in gpu.features and gpu.shared_bytes_per_block >= SHARED_BYTES and gpu.capability < 100
    return of.itemsize == 2 and all(one.numel() for one in tensors) and lines and hopper


def of_width(tiles: dict[int, tuple], D: int) -> tuple:
    return next(one for width, one in tiles.items() if width >= D)


def described(options: dict[str, int], *matrices: tuple[torch.Tensor, str]) -> list[TensorDescriptor]:
    """Each of the matrices by tiles of so many rows: "BLOCK" of a program's own, "OTHERS" of those that it walks over."""
    return [TensorDescriptor.from_tensor(one, [1, 1, options[rows], options["BLOCK_D"]]) for one, rows in matrices]


def descriptors(q, k, v, causal, window, scale):
    if beyond_grid(q):
        return by_sequences(descriptors, q, k, v, causal, window, scale)
    if not fits(q, k, v):
        return triton_forward.flash(q, k, v, causal, window, scale)
    options = tile(q.shape[2], k.shape[2], q, 1, (of_width(FORWARD_TILES, q.shape[3]),))
    given = described(options, (q, "BLOCK"), (k, "OTHERS"), (v, "OTHERS"))
    return triton_forward.forward(given, options, q, k, v, causal, window, scale)


def backward_descriptors(dy, q, k, v, y, state, causal, window, scale):
    if beyond_grid(q):
        return by_sequences(backward_descriptors, dy, q, k, v, y, state, causal, window, scale)
    if not fits(dy, q, k, v):
        return triton_backward.two_walks(dy, q, k, v, y, state, causal, window, scale)
    (_, _, Q, D), KV = q.shape, k.shape[2]
    queries = query_statistics(dy, y.contiguous(), state.contiguous())
    matrices = *(dy, q, k, v), queries, causal, window, D**-0.5 if scale is None else scale
    of_queries = tile(Q, KV, q, 2, (of_width(DQ_TILES, D),))
    given = described(of_queries, (dy, "BLOCK"), (q, "BLOCK"), (k, "OTHERS"), (v, "OTHERS"))
    dq = walk_queries(given, of_queries, *matrices)
    tiles = BOUNDED_DKDV_TILES if causal or window is not None else DKDV_TILES
    of_keys = tile(KV, Q, q, 2, (of_width(tiles, D),))
    given = described(of_keys, (dy, "OTHERS"), (q, "OTHERS"), (k, "BLOCK"), (v, "BLOCK"))
    return dq, *walk_keys(None, given, of_keys, *matrices)


FORWARD = (rung(4, "descriptors", descriptors, "tiles by TMA descriptors", triton_forward, triton_tiles),)
BACKWARD = (
    rung(4, "backward-descriptors", backward_descriptors, "tiles by TMA descriptors", triton_backward, triton_tiles),
)
