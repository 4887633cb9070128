"""Level 4: rotary position embedding in Triton: q and k in one kernel, in place; the backward turns back.

A program has some positions of several heads, of q or of k: their cosines and sines are read once.
"""

import triton
import triton.language as tl

from kernels.arguments import empty_contiguous
from kernels.rung import rung
from kernels.triton.launch import launch

HEADS = 4  # of a program
PAIRS = 1_024  # of a head in a program


@triton.jit
def turn_heads(
    x_ptr, y_ptr, cos, sin, first, H, positions, b, h, s, d, to_b, to_h, to_s, to_d, batch, S, D,
    INTERLEAVED: tl.constexpr, HEADS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """HEADS heads of x from the first on, by the strides b, h, s and d; y has those named to_…."""
    x_ptr += batch * b + positions.to(tl.int64) * s
    y_ptr += batch * to_b + positions.to(tl.int64) * to_s
    for number in tl.static_range(HEADS):
        head = (first + number).to(tl.int64)
        if INTERLEAVED:  # pairs are neighbours: both are read at once and then taken apart
            columns = tl.arange(0, BLOCK_D)[None, :]
            inside = (positions < S) & (columns < D) & (head < H)
            x = tl.load(x_ptr + head * h + columns * d, mask=inside, other=0.0).to(tl.float32)
            one, other = tl.split(tl.reshape(x, (x.shape[0], BLOCK_D // 2, 2)))
            y = tl.join(one * cos - other * sin, other * cos + one * sin)
            tl.store(y_ptr + head * to_h + columns * to_d, tl.reshape(y, x.shape), mask=inside)
        else:
            columns = tl.arange(0, BLOCK_D // 2)[None, :]
            inside = (positions < S) & (columns < D // 2) & (head < H)
            from_one, to_one = x_ptr + head * h + columns * d, y_ptr + head * to_h + columns * to_d
            one = tl.load(from_one, mask=inside, other=0.0).to(tl.float32)
            other = tl.load(from_one + D // 2 * d, mask=inside, other=0.0).to(tl.float32)
            tl.store(to_one, one * cos - other * sin, mask=inside)
            tl.store(to_one + D // 2 * to_d, other * cos + one * sin, mask=inside)


@triton.jit
def rope_kernel(
    q_ptr, k_ptr, to_q_ptr, to_k_ptr, cos_ptr, sin_ptr,
    q_b, q_h, q_s, q_d, k_b, k_h, k_s, k_d, to_q_b, to_q_h, to_q_s, to_q_d, to_k_b, to_k_h, to_k_s, to_k_d,
    H, KV_HEADS, S, D, turn,
    INTERLEAVED: tl.constexpr, HEADS: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(S, BLOCK_S)
    batch, group = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(1)
    positions = (tl.program_id(0) % blocks * BLOCK_S + tl.arange(0, BLOCK_S))[:, None]
    pairs = tl.arange(0, BLOCK_D // 2)[None, :]
    inside = (positions < S) & (pairs < D // 2)
    cos = tl.load(cos_ptr + positions * (D // 2) + pairs, mask=inside, other=0.0)
    sin = tl.load(sin_ptr + positions * (D // 2) + pairs, mask=inside, other=0.0) * turn
    of_q = tl.cdiv(H, HEADS)
    if group < of_q:
        turn_heads(
            q_ptr, to_q_ptr, cos, sin, group * HEADS, H, positions, q_b, q_h, q_s, q_d, to_q_b, to_q_h, to_q_s, to_q_d,
            batch, S, D, INTERLEAVED, HEADS, BLOCK_D,
        )  # fmt: skip
    else:
        first = (group - of_q) * HEADS
        turn_heads(
            k_ptr, to_k_ptr, cos, sin, first, KV_HEADS, positions, k_b, k_h, k_s, k_d, to_k_b, to_k_h, to_k_s, to_k_d,
            batch, S, D, INTERLEAVED, HEADS, BLOCK_D,
        )  # fmt: skip


def turn(q, k, to_q, to_k, cos, sin, interleaved: bool, by: float) -> None:
    """Writes q and k, turned by the angles times `by`, 1 or -1, to to_q and to_k, which may be q and k."""
    B, H, S, D = q.shape
    if not q.numel() + k.numel():
        return
    block = triton.next_power_of_2(D)
    positions = max(min(2 * PAIRS // block, triton.next_power_of_2(S)), 1)
    grid = B * triton.cdiv(S, positions), triton.cdiv(H, HEADS) + triton.cdiv(k.shape[1], HEADS)
    strides = (stride for tensor in (q, k, to_q, to_k) for stride in tensor.stride())
    tensors = q, k, to_q, to_k, cos.contiguous(), sin.contiguous()
    tile = {"INTERLEAVED": interleaved, "HEADS": HEADS, "BLOCK_S": positions, "BLOCK_D": block}
    launch(rope_kernel, grid, *tensors, *strides, H, k.shape[1], S, D, float(by), **tile, num_warps=4)


def heads(q, k, cos, sin, interleaved):
    turn(q, k, q, k, cos, sin, interleaved, 1)


def heads_back(dq, dk, cos, sin, interleaved):
    outputs = empty_contiguous(dq), empty_contiguous(dk)
    turn(dq, dk, *outputs, cos, sin, interleaved, -1)
    return outputs


FORWARD = (rung(4, "heads", heads, "a program turns several heads by the same angles"),)
BACKWARD = (rung(4, "heads-back", heads_back, "the same, turned back"),)
