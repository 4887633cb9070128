"""Level 4, backward in one walk: five products where two walks take seven, for sums of dq by atomic additions.

A program has a tile of keys, walks over the queries of every head that shares them, and adds what each tile gives dq to float32
numbers in memory, which are zero before and are rounded behind. In which order programs add is not known: the bits of dq may
differ from run to run, those of dk and dv do not. FlashAttention-2 does so (Dao 2023).
"""

from pathlib import Path

import torch
import triton
import triton.language as tl

from kernels.arguments import empty_contiguous
from kernels.operation import Variant
from kernels.ops.attention import triton_backward, triton_tiles
from kernels.ops.attention.triton_backward import TILES, attention_delta_kernel, softmax_of, two_walks
from kernels.ops.attention.triton_tiles import (
    LOG2_E,
    in_band,
    lines,
    load_rows,
    numbers,
    places,
    side,
    store_rows,
    stretches,
    tile,
)
from kernels.triton.launch import launch
from kernels.unsupported import needs_interpreter

ROUNDED = 1_024  # numbers of dq that a program rounds


@triton.jit
def add_queries_and_dq(
    dk, dv, k, v, q_ptr, dy_ptr, state_ptr, delta_ptr, dq_ptr, q_row, dy_row, begin, end, columns, Q, KV, left, right,
    scale, D: tl.constexpr, MASKED: tl.constexpr, OTHERS: tl.constexpr, BLOCK_D: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Tiles of scores lie with a row for each key here, as two of the three sums want them."""
    for start in tl.range(begin, end, OTHERS, num_stages=STAGES):
        rows, lanes = start + tl.arange(0, OTHERS), tl.arange(0, BLOCK_D)
        q = load_rows(q_ptr, q_row, start, Q, D, not MASKED, OTHERS, BLOCK_D)
        dy = load_rows(dy_ptr, dy_row, start, Q, D, not MASKED, OTHERS, BLOCK_D)
        inside = rows < end
        largest, log_sum = softmax_of(state_ptr, rows, inside)
        delta = tl.load(delta_ptr + rows, mask=inside, other=0.0)
        s = tl.dot(k, tl.trans(q), input_precision="ieee")
        p = tl.exp2((s - largest[None, :]) * scale - log_sum[None, :])
        if MASKED:
            visible = in_band(columns[:, None] - (rows + KV - Q)[None, :], left, right) & inside[None, :]
            p = tl.where(visible, p, 0.0)
        dv = tl.dot(p.to(dy.dtype), dy, dv, input_precision="ieee")
        ds = (p * (tl.dot(v, tl.trans(dy), input_precision="ieee") - delta[None, :])).to(q.dtype)
        dk = tl.dot(ds, q, dk, input_precision="ieee")
        of_tile = tl.dot(tl.trans(ds), k, input_precision="ieee")
        places = dq_ptr + rows.to(tl.int64)[:, None] * D + lanes[None, :]
        tl.atomic_add(places, of_tile, mask=inside[:, None] & (lanes < D)[None, :], sem="relaxed")
    return dk, dv


@triton.jit
def attention_one_walk_kernel(
    dy_ptr, q_ptr, k_ptr, v_ptr, state_ptr, delta_ptr, dq_ptr, dk_ptr, dv_ptr, dy_batch, dy_head, dy_row, q_batch, q_head,
    q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, H, GROUP, Q, KV, left, right, scale,
    D: tl.constexpr, LEADING: tl.constexpr, RAGGED: tl.constexpr,
    BLOCK: tl.constexpr, OTHERS: tl.constexpr, BLOCK_D: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK
    head = tl.program_id(1).to(tl.int64)
    heads = H // GROUP
    b, of_keys = head // heads, head % heads
    k = load_rows(k_ptr + b * k_batch + of_keys * k_head, k_row, first, KV, D, False, BLOCK, BLOCK_D)
    v = load_rows(v_ptr + b * v_batch + of_keys * v_head, v_row, first, KV, D, False, BLOCK, BLOCK_D)
    columns = first + tl.arange(0, BLOCK)
    place = first - (KV - Q)
    last = tl.minimum(first + BLOCK, KV) - 1 - (KV - Q)
    begin, whole, ragged, end = stretches(place, last, Q, right, left, LEADING, OTHERS)
    dk, dv = tl.zeros((BLOCK, BLOCK_D), tl.float32), tl.zeros((BLOCK, BLOCK_D), tl.float32)
    of_2 = scale * LOG2_E
    for member in range(GROUP):
        h = of_keys * GROUP + member
        of_row = (b * H + h) * Q
        of_q, of_dy, of_dq = q_ptr + b * q_batch + h * q_head, dy_ptr + b * dy_batch + h * dy_head, dq_ptr + of_row * D
        if LEADING:
            dk, dv = add_queries_and_dq(
                dk, dv, k, v, of_q, of_dy, state_ptr + 2 * of_row, delta_ptr + of_row, of_dq, q_row, dy_row, begin,
                tl.minimum(whole, end), columns, Q, KV, left, right, of_2, D, True, OTHERS, BLOCK_D, STAGES,
            )  # fmt: skip
        dk, dv = add_queries_and_dq(
            dk, dv, k, v, of_q, of_dy, state_ptr + 2 * of_row, delta_ptr + of_row, of_dq, q_row, dy_row, whole, ragged,
            columns, Q, KV, left, right, of_2, D, False, OTHERS, BLOCK_D, STAGES,
        )  # fmt: skip
        if RAGGED:
            dk, dv = add_queries_and_dq(
                dk, dv, k, v, of_q, of_dy, state_ptr + 2 * of_row, delta_ptr + of_row, of_dq, q_row, dy_row, ragged, end,
                columns, Q, KV, left, right, of_2, D, True, OTHERS, BLOCK_D, STAGES,
            )  # fmt: skip
    store_rows(dk_ptr + head * KV * D, D, first, KV, dk * scale, D, BLOCK, BLOCK_D)
    store_rows(dv_ptr + head * KV * D, D, first, KV, dv, D, BLOCK, BLOCK_D)


@triton.jit
def attention_rounded_kernel(sums_ptr, dq_ptr, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dq_ptr + at, tl.load(sums_ptr + at, mask=at < n) * scale, mask=at < n)


def one_walk(dy, q, k, v, y, state, causal, window, scale):
    dq, dk, dv = empty_contiguous(q), empty_contiguous(k), empty_contiguous(v)
    (B, H, Q, D), (_, heads, KV, _) = q.shape, k.shape
    if not dq.numel() or not dk.numel():
        return dq.zero_(), dk.zero_(), dv.zero_()
    options = tile(KV, Q, q, 2, TILES)
    if options["BLOCK"] < 16:  # of 256 floats a tile has 8 rows, and tl.dot sums over no fewer than 16
        return two_walks(dy, q, k, v, y, state, causal, window, scale)
    dy, q, k, v, y, state = lines(dy), lines(q), lines(k), lines(v), y.contiguous(), state.contiguous()
    delta = q.new_empty((B, H, Q), dtype=torch.float32)
    sums = q.new_zeros(q.shape, dtype=torch.float32)
    grid = triton.cdiv(Q, 32), B * H
    launch(
        attention_delta_kernel, grid, dy, y, delta, *places(dy), H, Q, D=D, BLOCK=32, BLOCK_D=side(D, 256), num_warps=4
    )

    scale = D**-0.5 if scale is None else scale
    parameters = *places(dy, q, k, v), *numbers(q, k, causal, window), scale
    bounded, windowed = causal or window is not None, window is not None
    options |= {"D": D, "LEADING": bounded, "RAGGED": windowed or Q % options["OTHERS"] != 0}
    grid = triton.cdiv(KV, options["BLOCK"]), B * heads
    launch(attention_one_walk_kernel, grid, dy, q, k, v, state, delta, sums, dk, dv, *parameters, **options)
    programs = (triton.cdiv(dq.numel(), ROUNDED),)
    launch(attention_rounded_kernel, programs, sums, dq, dq.numel(), scale, BLOCK=ROUNDED, num_warps=4)
    return dq, dk, dv


SOURCE = (Path(__file__), Path(triton_backward.__file__), Path(triton_tiles.__file__))
BACKWARD = (
    Variant(4, "backward-one-walk", one_walk, "five products; dq by atomic additions", SOURCE, needs_interpreter),
)
