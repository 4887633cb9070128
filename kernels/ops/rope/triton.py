"""Level 4: rotary position embedding in Triton: q and k in one kernel, in place; the backward turns back.

A program has some positions of several heads, of q or of k: their cosines and sines are read once.
"""

import torch
import triton
import triton.language as tl

from kernels.arguments import empty_contiguous
from kernels.machine import multiprocessors
from kernels.rung import rung
from kernels.triton.launch import launch

HEADS, VALUES = 4, 512  # of a program, and of each of its heads
PROGRAMS = 4  # of a multiprocessor, at least; not timed yet


@triton.jit
def turn_heads(
    x_ptr, y_ptr, cos_ptr, sin_ptr, turn, first, H, positions, b, h, s, d, to_b, to_h, to_s, to_d, batch, S, D,
    INTERLEAVED: tl.constexpr, HEADS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """HEADS heads of x from the first on, all on their way at once and the angles with them, by the strides b, h, s and d; y
    has those named to_…."""
    pairs = tl.arange(0, BLOCK_D // 2)[None, None, :]
    angles, known = positions * (D // 2) + pairs, (positions < S) & (pairs < D // 2)
    heads = (first + tl.arange(0, HEADS))[:, None, None]
    x_ptr += batch * b + heads.to(tl.int64) * h + positions.to(tl.int64) * s
    y_ptr += batch * to_b + heads.to(tl.int64) * to_h + positions.to(tl.int64) * to_s
    if INTERLEAVED:  # pairs are neighbours: both are read at once and then taken apart
        columns = tl.arange(0, BLOCK_D)[None, None, :]
        inside = (heads < H) & (positions < S) & (columns < D)
        x = tl.load(x_ptr + columns * d, mask=inside, other=0.0).to(tl.float32)
        cos = tl.load(cos_ptr + angles, mask=known, other=0.0)
        sin = tl.load(sin_ptr + angles, mask=known, other=0.0) * turn
        one, other = tl.split(tl.reshape(x, (x.shape[0], x.shape[1], BLOCK_D // 2, 2)))
        y = tl.join(one * cos - other * sin, other * cos + one * sin)
        tl.store(y_ptr + columns * to_d, tl.reshape(y, x.shape), mask=inside)
    else:
        inside = (heads < H) & known
        one = tl.load(x_ptr + pairs * d, mask=inside, other=0.0).to(tl.float32)
        other = tl.load(x_ptr + (pairs + D // 2) * d, mask=inside, other=0.0).to(tl.float32)
        cos = tl.load(cos_ptr + angles, mask=known, other=0.0)
        sin = tl.load(sin_ptr + angles, mask=known, other=0.0) * turn
        tl.store(y_ptr + pairs * to_d, one * cos - other * sin, mask=inside)
        tl.store(y_ptr + (pairs + D // 2) * to_d, other * cos + one * sin, mask=inside)


@triton.jit
def rope_kernel(
    q_ptr, k_ptr, to_q_ptr, to_k_ptr, cos_ptr, sin_ptr,
    q_b, q_h, q_s, q_d, k_b, k_h, k_s, k_d, to_q_b, to_q_h, to_q_s, to_q_d, to_k_b, to_k_h, to_k_s, to_k_d,
    H, KV_HEADS, S, D, turn,
    INTERLEAVED: tl.constexpr, HEADS: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(S, BLOCK_S)
    batch, group = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(1)
    positions = (tl.program_id(0) % blocks * BLOCK_S + tl.arange(0, BLOCK_S))[None, :, None]
    q_groups = tl.cdiv(H, HEADS)
    if group < q_groups:
        turn_heads(
            q_ptr, to_q_ptr, cos_ptr, sin_ptr, turn, group * HEADS, H, positions,
            q_b, q_h, q_s, q_d, to_q_b, to_q_h, to_q_s, to_q_d, batch, S, D, INTERLEAVED, HEADS, BLOCK_D,
        )  # fmt: skip
    else:
        first = (group - q_groups) * HEADS
        turn_heads(
            k_ptr, to_k_ptr, cos_ptr, sin_ptr, turn, first, KV_HEADS, positions,
            k_b, k_h, k_s, k_d, to_k_b, to_k_h, to_k_s, to_k_d, batch, S, D, INTERLEAVED, HEADS, BLOCK_D,
        )  # fmt: skip


def turn(q, k, to_q, to_k, cos, sin, interleaved: bool, by: float) -> None:
    """Writes q and k, turned by the angles times `by`, 1 or -1, to to_q and to_k, which may be q and k."""
    B, H, S, D = q.shape
    if not q.numel() + k.numel():
        return
    tile = tile_of(B, S, D, H + k.shape[1], q.device)
    heads, positions = tile["HEADS"], tile["BLOCK_S"]
    grid = B * triton.cdiv(S, positions), triton.cdiv(H, heads) + triton.cdiv(k.shape[1], heads)
    strides = (stride for tensor in (q, k, to_q, to_k) for stride in tensor.stride())
    tensors = q, k, to_q, to_k, cos.contiguous(), sin.contiguous()
    arguments = (*tensors, *strides, H, k.shape[1], S, D, float(by))
    launch(rope_kernel, grid, *arguments, **tile, INTERLEAVED=interleaved)


def tile_of(B: int, S: int, D: int, heads: int, device: torch.device) -> dict[str, int]:
    """Several heads in a program, unless then too few programs are left for every multiprocessor."""
    block = triton.next_power_of_2(D)
    few = B * S * block * heads < HEADS * VALUES * PROGRAMS * multiprocessors(device)
    positions = max(min(VALUES // block, triton.next_power_of_2(S)), 1)
    return {"HEADS": 1 if few else HEADS, "BLOCK_S": positions, "BLOCK_D": block, "num_warps": 2 if few else 4}


def heads(q, k, cos, sin, interleaved):
    turn(q, k, q, k, cos, sin, interleaved, 1)


def heads_back(dq, dk, cos, sin, interleaved):
    outputs = empty_contiguous(dq), empty_contiguous(dk)
    turn(dq, dk, *outputs, cos, sin, interleaved, -1)
    return outputs


FORWARD = (rung(4, "heads", heads, "a program turns several heads by the same angles"),)
BACKWARD = (rung(4, "heads-back", heads_back, "the same, turned back"),)
