"""Level 4, backward in one walk: five products where two walks take seven, for sums of dq by atomic additions.

A program has a tile of keys, walks over the queries of every head that shares them, and adds what each tile gives dq to float32
numbers in memory, which are zero before and are rounded behind. In which order programs add is not known: the bits of dq may
differ from run to run, those of dk and dv do not. FlashAttention-2 does so (Dao 2023).
"""

import torch
import triton
import triton.language as tl

from kernels.arguments import empty_contiguous
from kernels.ops.attention import triton_backward, triton_tiles
from kernels.ops.attention.triton_backward import TILES, query_statistics, two_walks, walk_keys
from kernels.ops.attention.triton_tiles import beyond_grid, by_sequences, lines, tile
from kernels.rung import rung
from kernels.triton.launch import launch

ROUNDED = 1_024  # numbers of dq that a program rounds


@triton.jit
def attention_rounded_kernel(sums_ptr, dq_ptr, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dq_ptr + at, tl.load(sums_ptr + at, mask=at < n) * scale, mask=at < n)


def one_walk(dy, q, k, v, y, state, causal, window, scale):
    if beyond_grid(q):
        return by_sequences(one_walk, dy, q, k, v, y, state, causal, window, scale)
    # Of 256 floats a tile has 8 rows, and tl.dot sums over no fewer than 16.
    if not q.numel() or not k.numel() or tile(k.shape[2], q.shape[2], q, 2, TILES)["BLOCK"] < 16:
        return two_walks(dy, q, k, v, y, state, causal, window, scale)
    dq, sums = empty_contiguous(q), q.new_zeros(q.shape, dtype=torch.float32)
    given = dy, q, k, v = lines(dy), lines(q), lines(k), lines(v)
    queries, options = (
        query_statistics(dy, y.contiguous(), state.contiguous()),
        tile(k.shape[2], q.shape[2], q, 2, TILES),
    )
    scale = q.shape[3] ** -0.5 if scale is None else scale
    dk, dv = walk_keys(sums, given, options, *given, queries, causal, window, scale)
    programs = (triton.cdiv(dq.numel(), ROUNDED),)
    launch(attention_rounded_kernel, programs, sums, dq, dq.numel(), scale, BLOCK=ROUNDED, num_warps=4)
    return dq, dk, dv


IDEA = "five products; dq by atomic additions"
BACKWARD = (rung(4, "backward-one-walk", one_walk, IDEA, triton_backward, triton_tiles, deterministic=False),)
