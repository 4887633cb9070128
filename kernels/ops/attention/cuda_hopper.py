"""Level 5, forward: the Python side of attention_wgmma.cu, for Hopper GPUs.

TMA wants lines of neighbouring features that begin at multiples of 16 bytes. Other tensors, float32 and other GPUs are left to
the rung before.
"""

from collections.abc import Callable
from pathlib import Path

import torch

from kernels import machine
from kernels.cuda.template import kernel
from kernels.cuda.tensor_map import tensor_map
from kernels.ops.attention.native import SIGNATURE
from kernels.vectors import heads_in_vectors

FILE = Path(__file__).with_name("attention_wgmma.cu")
LINE, QUERIES, THREADS = 64, 128, 384  # of attention_wgmma.cu
TILES = {64: (128, 8), 128: (128, 6), 256: (64, 5)}  # keys of a tile and tiles of the ring, by features


def fits(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> bool:
    """Whether there is anything to compute, by a GPU that can, from tensors as TMA reads them."""
    lines = all(one.stride(3) == 1 and 0 not in one.stride() for one in (q, k, v)) and heads_in_vectors(q, k, v)
    return q.itemsize == 2 and q.numel() > 0 < k.numel() and lines and machine.has(q.device, "wgmma")


def forward(before: Callable, sizes: Callable, q, k, v, causal, window, scale):
    """before: the rung that takes what this one cannot. sizes: what every kernel goes by."""
    if not fits(q, k, v):
        return before(q, k, v, causal, window, scale)
    y, lse, state = SIGNATURE.empty_outputs(q)
    B, H, Q, D = q.shape
    wide = next(width for width in TILES if width >= D)
    keys, slots = TILES[wide]
    shared_bytes = 1_024 + (QUERIES + slots * keys) * wide * q.itemsize
    options = {"options": ("-arch=sm_90a",), "shared_bytes": shared_bytes}
    launched = kernel(FILE, "attention_wgmma", q.dtype, wide, keys, slots, **options)
    maps = [tensor_map(one, (LINE, rows)) for one, rows in ((q, QUERIES), (k, keys), (v, keys))]
    blocks = min(B * H * -(-Q // QUERIES), machine.multiprocessors(q.device))
    given = *maps, y, lse, state, B * H, *sizes(q, k, causal, window, scale)
    launched((blocks,), (THREADS,), given, shared_mem=shared_bytes)
    return y, lse, state
