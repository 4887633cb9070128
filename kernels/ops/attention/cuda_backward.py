"""Level 5, backward: the Python side of attention_backward.cu."""

from pathlib import Path

import torch

from kernels.arguments import empty_contiguous
from kernels.cuda.template import kernel
from kernels.operation import Variant
from kernels.ops.attention.cuda_forward import (
    LANES,
    SHARED,
    lines,
    needs_small_scores,
    rows_of_tile,
    sizes,
    strides,
    width,
)
from kernels.unsupported import first_of, needs_compiler

FILE = Path(__file__).with_name("attention_backward.cu")
TILE_FLOATS = 2_048  # of a tile in shared memory; there are four


def tiled(dy, q, k, v, y, state, causal, window, scale):
    dq, dk, dv = empty_contiguous(q), empty_contiguous(k), empty_contiguous(v)
    if not dq.numel() or not dk.numel():
        return dq.zero_(), dk.zero_(), dv.zero_()
    dy, q, k, v, y, state = lines(dy), lines(q), lines(k), lines(v), y.contiguous(), state.contiguous()
    (B, H, Q, D), (_, heads, KV, _) = q.shape, k.shape
    delta = q.new_empty((B, H, Q), dtype=torch.float32)
    write_delta = kernel(FILE, "attention_delta", q.dtype)
    write_delta((-(-delta.numel() // 4),), (128,), (dy, y, delta, *strides(dy), delta.numel(), H, Q, D))

    rows = rows_of_tile(D, TILE_FLOATS)
    tensors, parameters = (dy, q, k, v, state, delta), (*strides(dy, q, k, v), *sizes(q, k, causal, window, scale))
    for name, tiles, out in (
        ("attention_dq", B * H * -(-Q // rows), (dq,)),
        ("attention_dkdv", B * heads * -(-KV // rows), (dk, dv)),
    ):
        launched = kernel(FILE, name, q.dtype, width(D), rows)
        launched((tiles,), (rows * LANES,), (*tensors, *out, *parameters))
    return dq, dk, dv


SOURCE = (FILE, *SHARED, Path(__file__))
NEEDS = first_of(needs_compiler, needs_small_scores)  # the forward that it follows is `wmma`
BACKWARD = (Variant(5, "backward-tiled", tiled, "scores computed twice, tiles in shared memory", SOURCE, NEEDS),)
