"""Level 4: rotary position embedding in Triton: q and k in one kernel, in place; the backward turns back.

A program has some positions of several heads, of q or of k: their cosines and sines are read once.
"""

import torch
import triton
import triton.language as tl

from kernels.arguments import empty_contiguous, in_32_bits
from kernels.hardware import LAUNCH_GRID
from kernels.machine import multiprocessors
from kernels.rung import rung
from kernels.triton.launch import launch

HEADS, VALUES = 4, 512  # of a program, and of each of its heads
PROGRAMS = 4  # of a multiprocessor, at least; no other number is timed


@triton.jit
def rope_kernel(
    q_ptr, k_ptr, to_q_ptr, to_k_ptr, cos_ptr, sin_ptr, q_b, q_h, q_s, q_d, k_b, k_h, k_s, k_d, H, KV_HEADS, S, D,
    WIDE: tl.constexpr, INTERLEAVED: tl.constexpr, HEADS: tl.constexpr, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """HEADS heads of q or of k at BLOCK_S positions, all on their way at once and the angles with them: turned in place, or
    back to contiguous memory, where there are pointers to it. WIDE: places in q and k are counted in 64 bits."""
    group, q_groups = tl.program_id(1), tl.cdiv(H, HEADS)
    # Chosen without a branch: the code is there once.
    is_q = group < q_groups
    x_ptr, count, first = tl.where(is_q, q_ptr, k_ptr), tl.where(is_q, H, KV_HEADS), tl.where(is_q, 0, q_groups)
    b, h, s, d = tl.where(is_q, q_b, k_b), tl.where(is_q, q_h, k_h), tl.where(is_q, q_s, k_s), tl.where(is_q, q_d, k_d)
    batch, heads = tl.program_id(2), ((group - first) * HEADS + tl.arange(0, HEADS))[:, None, None]
    positions = (tl.program_id(0) * BLOCK_S + tl.arange(0, BLOCK_S))[None, :, None]
    pairs = tl.arange(0, BLOCK_D // 2)[None, None, :]
    angles, known = positions * (D // 2) + pairs, (positions < S) & (pairs < D // 2)
    present = (heads < count) & (positions < S)
    if WIDE:
        batch, heads, positions = batch.to(tl.int64), heads.to(tl.int64), positions.to(tl.int64)
    x_at = batch * b + heads * h + positions * s
    if to_q_ptr is None:
        y_ptr, y_at, to_d = x_ptr, x_at, d
    else:
        y_ptr, y_at, to_d = tl.where(is_q, to_q_ptr, to_k_ptr), ((batch * count + heads) * S + positions) * D, 1
    if INTERLEAVED:  # pairs are neighbours: both are read at once and then taken apart
        columns = tl.arange(0, BLOCK_D)[None, None, :]
        inside = present & (columns < D)
        x = tl.load(x_ptr + (x_at + columns * d), mask=inside, other=0.0).to(tl.float32)
        cos = tl.load(cos_ptr + angles, mask=known, other=0.0)
        sin = tl.load(sin_ptr + angles, mask=known, other=0.0)
        one, other = tl.split(tl.reshape(x, (x.shape[0], x.shape[1], BLOCK_D // 2, 2)))
        if to_q_ptr is not None:
            sin = -sin
        y = tl.join(one * cos - other * sin, other * cos + one * sin)
        tl.store(y_ptr + (y_at + columns * to_d), tl.reshape(y, x.shape), mask=inside)
    else:
        inside = present & (pairs < D // 2)
        one = tl.load(x_ptr + (x_at + pairs * d), mask=inside, other=0.0).to(tl.float32)
        other = tl.load(x_ptr + (x_at + (pairs + D // 2) * d), mask=inside, other=0.0).to(tl.float32)
        cos = tl.load(cos_ptr + angles, mask=known, other=0.0)
        sin = tl.load(sin_ptr + angles, mask=known, other=0.0)
        if to_q_ptr is not None:
            sin = -sin
        tl.store(y_ptr + (y_at + pairs * to_d), one * cos - other * sin, mask=inside)
        tl.store(y_ptr + (y_at + (pairs + D // 2) * to_d), other * cos + one * sin, mask=inside)


def turn(q, k, outputs: tuple[torch.Tensor, ...], cos, sin, interleaved: bool) -> None:
    """Turns q and k in place, or back to outputs, contiguous, if there are any."""
    B, H, S, D = q.shape
    if not q.numel() + k.numel():
        return
    if (most := LAUNCH_GRID[2]) < B:
        for start in range(0, B, most):
            some = slice(start, start + most)
            turn(q[some], k[some], tuple(to[some] for to in outputs), cos, sin, interleaved)
        return
    tile = tile_of(B, S, D, H + k.shape[1], q.device)
    heads, positions = tile["HEADS"], tile["BLOCK_S"]
    grid = triton.cdiv(S, positions), triton.cdiv(H, heads) + triton.cdiv(k.shape[1], heads), B
    strides = (stride for tensor in (q, k) for stride in tensor.stride())
    tensors = q, k, *(outputs or (None, None)), cos.contiguous(), sin.contiguous()
    arguments = (*tensors, *strides, H, k.shape[1], S, D)
    launch(rope_kernel, grid, *arguments, **tile, INTERLEAVED=interleaved, WIDE=not in_32_bits(q, k))


def tile_of(B: int, S: int, D: int, heads: int, device: torch.device) -> dict[str, int]:
    """Several heads in a program, unless then too few programs are left for every multiprocessor."""
    block = triton.next_power_of_2(D)
    few = B * S * block * heads < HEADS * VALUES * PROGRAMS * multiprocessors(device)
    positions = max(min(VALUES // block, triton.next_power_of_2(S)), 1)
    return {"HEADS": 1 if few else HEADS, "BLOCK_S": positions, "BLOCK_D": block, "num_warps": 2 if few else 4}


def heads(q, k, cos, sin, interleaved):
    turn(q, k, (), cos, sin, interleaved)


def heads_back(dq, dk, cos, sin, interleaved):
    outputs = empty_contiguous(dq), empty_contiguous(dk)
    turn(dq, dk, outputs, cos, sin, interleaved)
    return outputs


FORWARD = (rung(4, "heads", heads, "a program turns several heads by the same angles"),)
BACKWARD = (rung(4, "heads-back", heads_back, "the same, turned back"),)
