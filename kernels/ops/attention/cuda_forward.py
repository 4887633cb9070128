"""Level 5, forward: the Python side of attention.cu and attention_wmma.cu, and the ladder.

Rungs, plain to best:
    warp   a warp a query, which reads all of its keys from memory.
    tiled  tiles of keys and values in shared memory, read by a tile of queries.
    wmma   half types on the tensor cores; float32, and GPUs before sm_80, stay with `tiled`.
    wgmma  Hopper's own: tiles by TMA, products by warpgroups; other GPUs and tensors stay with `wmma`.
"""

from functools import partial
from pathlib import Path

import numpy as np
import torch

from kernels.cuda.includes import DEVICE, with_includes
from kernels.cuda.rows import power_of_2_from
from kernels.cuda.template import kernel
from kernels.machine import Machine, target
from kernels.operation import Case, Variant
from kernels.ops.attention import band as bands
from kernels.ops.attention import cuda_hopper
from kernels.ops.attention.band import band
from kernels.ops.attention.native import SIGNATURE
from kernels.unsupported import first_of, needs_compiler
from kernels.vectors import heads_in_vectors

FILE, WMMA = (Path(__file__).with_name(f"{name}.cu") for name in ("attention", "attention_wmma"))
LANES = 8  # of attention.cuh: threads that share a row
TILE_FLOATS = 4_096  # of a tile in shared memory; there are two
THREADS, QUERIES, PAD = 128, 64, 8  # of attention_wmma.cu and async_tiles.cuh
SHARED = (FILE.with_name("attention.cuh"), *(DEVICE / f"{name}.cuh" for name in ("parts", "reductions")))


def lines(x: torch.Tensor) -> torch.Tensor:
    """x, whose features are neighbours; a copy only where they are not."""
    return x if x.stride(3) == 1 or x.shape[3] == 1 else x.contiguous()


def strides(*tensors: torch.Tensor) -> list[int]:
    """Of batches, heads and rows of each."""
    return [stride for one in tensors for stride in one.stride()[:3]]


def width(D: int) -> int:
    """A power of two from D on."""
    return max(power_of_2_from(D), 16)


def rows_of_tile(D: int, floats: int = TILE_FLOATS) -> int:
    return min(floats // width(D), 32)


def sizes(q: torch.Tensor, k: torch.Tensor, causal: bool, window: int | None, scale: float | None) -> tuple:
    """What every kernel goes by, from H to the scale."""
    (_, H, Q, D), (_, heads, KV, _) = q.shape, k.shape
    scale = D**-0.5 if scale is None else scale
    return H, H // heads, Q, KV, *band(causal, window, Q, KV), D, np.float32(scale)


def arguments(q, k, v, y, lse, state, causal, window, scale) -> tuple:
    q, k, v = lines(q), lines(k), lines(v)
    return q, k, v, y, lse, state, *strides(q, k, v), lse.numel(), *sizes(q, k, causal, window, scale)


def warp(q, k, v, causal, window, scale):
    y, lse, state = SIGNATURE.empty_outputs(q)
    if y.numel():
        grid = (-(-lse.numel() // 4),)
        launched = kernel(FILE, "attention_warp", q.dtype, width(q.shape[3]))
        launched(grid, (128,), arguments(q, k, v, y, lse, state, causal, window, scale))
    return y, lse, state


def tiled(q, k, v, causal, window, scale):
    y, lse, state = SIGNATURE.empty_outputs(q)
    if y.numel():
        B, H, Q, D = q.shape
        rows = rows_of_tile(D)
        launched = kernel(FILE, "attention_tiled", q.dtype, width(D), rows)
        launched((B * H * -(-Q // rows),), (rows * LANES,), arguments(q, k, v, y, lse, state, causal, window, scale))
    return y, lse, state


def wmma(q, k, v, causal, window, scale):
    if q.dtype == torch.float32 or target(q.device).capability < 80:
        return tiled(q, k, v, causal, window, scale)
    y, lse, state = SIGNATURE.empty_outputs(q)
    if y.numel():
        B, H, Q, D = q.shape
        q, k, v = lines(q), lines(k), lines(v)
        wide, keys = width(D), 64 if D <= 128 else 32
        tiles = (QUERIES + 2 * keys) * (wide + PAD) * q.itemsize
        shared_bytes = tiles + QUERIES * (keys + 4) * 4  # and the scores
        launched = kernel(
            WMMA, "attention_wmma", q.dtype, wide, keys, heads_in_vectors(q, k, v), shared_bytes=shared_bytes
        )
        given = arguments(q, k, v, y, lse, state, causal, window, scale)
        launched((B * H * -(-Q // QUERIES),), (THREADS,), given, shared_mem=shared_bytes)
    return y, lse, state


wgmma = partial(cuda_hopper.forward, wmma, sizes)


def needs_small_scores(case: Case, machine: Machine) -> str | None:
    """Scores are rounded as they are added up, by tensor cores here and by threads in the backward: at 1e4 by a thousandth, by
    which each weight of the backward is then off."""
    if case.values == "large" and case.dtype != "float32":
        return "adds up scores in another order than its backward, and scores of 1e4 show it"
    return None


SOURCE = (FILE, *SHARED, Path(__file__), Path(bands.__file__))
FORWARD = (
    Variant(5, "warp", warp, "a warp a query, 32 keys at a time", SOURCE, needs_compiler),
    Variant(5, "tiled", tiled, "keys and values in shared memory, for a tile of queries", SOURCE, needs_compiler),
    Variant(
        5,
        "wmma",
        wmma,
        "half types on the tensor cores, tiles on their way",
        (WMMA, DEVICE / "async_tiles.cuh", *SOURCE),
        first_of(needs_compiler, needs_small_scores),
    ),
    Variant(
        5,
        "wgmma",
        wgmma,
        "Hopper's own: tiles by TMA, weights of some keys while others are multiplied",
        (*with_includes(cuda_hopper.FILE), Path(cuda_hopper.__file__), *SOURCE[2:]),
        first_of(needs_compiler, needs_small_scores),
    ),
)
