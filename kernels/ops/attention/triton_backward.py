"""Level 4, backward: scores are computed again from q, k and the state of the softmax, twice: no two programs add to one
gradient.

Three kernels: delta, a number a query; dq, a program a tile of queries, which walks over keys; dk and dv, a program a tile of
keys, which walks over the queries of every head that shares them.
"""

from pathlib import Path

import torch
import triton
import triton.language as tl

from kernels.arguments import empty_contiguous
from kernels.operation import Variant
from kernels.ops.attention import triton_tiles
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

TILES = ((128, 64, 8, 2), (64, 32, 8, 2), (32, 32, 8, 2))  # as HALF_TILES, and smaller: two sums are in registers


@triton.jit
def attention_delta_kernel(
    dy_ptr,
    y_ptr,
    delta_ptr,
    dy_batch,
    dy_head,
    dy_row,
    H,
    Q,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """delta_i = dy_i · y_i, which is what the gradients of a query's scores have in common."""
    first, head = tl.program_id(0) * BLOCK, tl.program_id(1).to(tl.int64)
    dy_ptr += head // H * dy_batch + head % H * dy_head
    dy = load_rows(dy_ptr, dy_row, first, Q, D, False, BLOCK, BLOCK_D).to(tl.float32)
    y = load_rows(y_ptr + head * Q * D, D, first, Q, D, False, BLOCK, BLOCK_D).to(tl.float32)
    rows = first + tl.arange(0, BLOCK)
    tl.store(delta_ptr + head * Q + rows, tl.sum(dy * y, 1), mask=rows < Q)


@triton.jit
def softmax_of(ptr, rows, inside):
    """Of queries, the largest q · k and the logarithm, to the base 2, of the sum."""
    return tl.load(ptr + 2 * rows, mask=inside, other=0.0), tl.load(ptr + 2 * rows + 1, mask=inside, other=0.0)


@triton.jit
def add_keys(
    dq, q, dy, largest, log_sum, delta, k_ptr, v_ptr, k_row, v_row, begin, end, at, KV, left, right, scale,
    D: tl.constexpr, MASKED: tl.constexpr, OTHERS: tl.constexpr, BLOCK_D: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    for start in tl.range(begin, end, OTHERS, num_stages=STAGES):
        k = load_rows(k_ptr, k_row, start, KV, D, not MASKED, OTHERS, BLOCK_D)
        v = load_rows(v_ptr, v_row, start, KV, D, not MASKED, OTHERS, BLOCK_D)
        s = tl.dot(q, tl.trans(k), input_precision="ieee")
        p = tl.exp2((s - largest[:, None]) * scale - log_sum[:, None])
        if MASKED:
            columns = start + tl.arange(0, OTHERS)
            visible = in_band(columns[None, :] - at[:, None], left, right) & (columns < end)[None, :]
            p = tl.where(visible, p, 0.0)
        ds = p * (tl.dot(dy, tl.trans(v), input_precision="ieee") - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    return dq


@triton.jit
def attention_dq_kernel(
    dy_ptr, q_ptr, k_ptr, v_ptr, state_ptr, delta_ptr, dq_ptr, dy_batch, dy_head, dy_row, q_batch, q_head, q_row,
    k_batch, k_head, k_row, v_batch, v_head, v_row, H, GROUP, Q, KV, left, right, scale,
    D: tl.constexpr, LEADING: tl.constexpr, RAGGED: tl.constexpr,
    BLOCK: tl.constexpr, OTHERS: tl.constexpr, BLOCK_D: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK
    head = tl.program_id(1).to(tl.int64)
    b, h = head // H, head % H
    k_ptr += b * k_batch + h // GROUP * k_head
    v_ptr += b * v_batch + h // GROUP * v_head
    q = load_rows(q_ptr + b * q_batch + h * q_head, q_row, first, Q, D, False, BLOCK, BLOCK_D)
    dy = load_rows(dy_ptr + b * dy_batch + h * dy_head, dy_row, first, Q, D, False, BLOCK, BLOCK_D)
    rows = first + tl.arange(0, BLOCK)
    largest, log_sum = softmax_of(state_ptr + 2 * head * Q, rows, rows < Q)
    delta = tl.load(delta_ptr + head * Q + rows, mask=rows < Q, other=0.0)

    at, place = rows + KV - Q, first + KV - Q
    last = tl.minimum(first + BLOCK, Q) - 1 + KV - Q
    begin, whole, ragged, end = stretches(place, last, KV, left, right, LEADING, OTHERS)
    dq = tl.zeros((BLOCK, BLOCK_D), tl.float32)
    of_2 = scale * LOG2_E
    if LEADING:
        dq = add_keys(
            dq, q, dy, largest, log_sum, delta, k_ptr, v_ptr, k_row, v_row, begin,
            tl.minimum(whole, end), at, KV, left, right, of_2, D, True, OTHERS, BLOCK_D, STAGES,
        )  # fmt: skip
    dq = add_keys(
        dq, q, dy, largest, log_sum, delta, k_ptr, v_ptr, k_row, v_row, whole, ragged, at, KV, left, right, of_2,
        D, False, OTHERS, BLOCK_D, STAGES,
    )  # fmt: skip
    if RAGGED:
        dq = add_keys(
            dq, q, dy, largest, log_sum, delta, k_ptr, v_ptr, k_row, v_row, ragged, end, at, KV, left, right, of_2,
            D, True, OTHERS, BLOCK_D, STAGES,
        )  # fmt: skip
    store_rows(dq_ptr + head * Q * D, D, first, Q, dq * scale, D, BLOCK, BLOCK_D)


@triton.jit
def add_queries(
    dk, dv, k, v, q_ptr, dy_ptr, state_ptr, delta_ptr, q_row, dy_row, begin, end, columns, Q, KV, left, right, scale,
    D: tl.constexpr, MASKED: tl.constexpr, OTHERS: tl.constexpr, BLOCK_D: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Tiles of scores lie with a row for each key here, as both sums want them."""
    for start in tl.range(begin, end, OTHERS, num_stages=STAGES):
        rows = start + tl.arange(0, OTHERS)
        q = load_rows(q_ptr, q_row, start, Q, D, not MASKED, OTHERS, BLOCK_D)
        dy = load_rows(dy_ptr, dy_row, start, Q, D, not MASKED, OTHERS, BLOCK_D)
        inside = rows < end
        if MASKED:
            largest, log_sum = softmax_of(state_ptr, rows, inside)
            delta = tl.load(delta_ptr + rows, mask=inside, other=0.0)
        else:
            largest, log_sum = tl.load(state_ptr + 2 * rows), tl.load(state_ptr + 2 * rows + 1)
            delta = tl.load(delta_ptr + rows)
        s = tl.dot(k, tl.trans(q), input_precision="ieee")
        p = tl.exp2((s - largest[None, :]) * scale - log_sum[None, :])
        if MASKED:
            visible = in_band(columns[:, None] - (rows + KV - Q)[None, :], left, right) & inside[None, :]
            p = tl.where(visible, p, 0.0)
        dv = tl.dot(p.to(dy.dtype), dy, dv, input_precision="ieee")
        ds = p * (tl.dot(v, tl.trans(dy), input_precision="ieee") - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk, input_precision="ieee")
    return dk, dv


@triton.jit
def attention_dkdv_kernel(
    dy_ptr, q_ptr, k_ptr, v_ptr, state_ptr, delta_ptr, dk_ptr, dv_ptr, dy_batch, dy_head, dy_row, q_batch, q_head, q_row,
    k_batch, k_head, k_row, v_batch, v_head, v_row, H, GROUP, Q, KV, left, right, scale,
    D: tl.constexpr, LEADING: tl.constexpr, RAGGED: tl.constexpr,
    BLOCK: tl.constexpr, OTHERS: tl.constexpr, BLOCK_D: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK  # under a causal mask the first keys are seen by the most queries
    head = tl.program_id(1).to(tl.int64)
    heads = H // GROUP
    b, of_keys = head // heads, head % heads
    k = load_rows(k_ptr + b * k_batch + of_keys * k_head, k_row, first, KV, D, False, BLOCK, BLOCK_D)
    v = load_rows(v_ptr + b * v_batch + of_keys * v_head, v_row, first, KV, D, False, BLOCK, BLOCK_D)
    columns = first + tl.arange(0, BLOCK)
    # Counted from the first query's place, a key meets queries from `right` before it to `left` behind it.
    place = first - (KV - Q)
    last = tl.minimum(first + BLOCK, KV) - 1 - (KV - Q)
    begin, whole, ragged, end = stretches(place, last, Q, right, left, LEADING, OTHERS)
    dk, dv = tl.zeros((BLOCK, BLOCK_D), tl.float32), tl.zeros((BLOCK, BLOCK_D), tl.float32)
    of_2 = scale * LOG2_E
    for member in range(GROUP):
        h = of_keys * GROUP + member
        of_q, of_dy, of_row = q_ptr + b * q_batch + h * q_head, dy_ptr + b * dy_batch + h * dy_head, (b * H + h) * Q
        if LEADING:
            dk, dv = add_queries(
                dk, dv, k, v, of_q, of_dy, state_ptr + 2 * of_row, delta_ptr + of_row, q_row, dy_row, begin,
                tl.minimum(whole, end), columns, Q, KV, left, right, of_2, D, True, OTHERS, BLOCK_D, STAGES,
            )  # fmt: skip
        dk, dv = add_queries(
            dk, dv, k, v, of_q, of_dy, state_ptr + 2 * of_row, delta_ptr + of_row, q_row, dy_row, whole, ragged, columns,
            Q, KV, left, right, of_2, D, False, OTHERS, BLOCK_D, STAGES,
        )  # fmt: skip
        if RAGGED:
            dk, dv = add_queries(
                dk, dv, k, v, of_q, of_dy, state_ptr + 2 * of_row, delta_ptr + of_row, q_row, dy_row, ragged, end, columns,
                Q, KV, left, right, of_2, D, True, OTHERS, BLOCK_D, STAGES,
            )  # fmt: skip
    store_rows(dk_ptr + head * KV * D, D, first, KV, dk * scale, D, BLOCK, BLOCK_D)
    store_rows(dv_ptr + head * KV * D, D, first, KV, dv, D, BLOCK, BLOCK_D)


def two_walks(dy, q, k, v, y, state, causal, window, scale):
    dq, dk, dv = empty_contiguous(q), empty_contiguous(k), empty_contiguous(v)
    (B, H, Q, D), (_, heads, KV, _) = q.shape, k.shape
    if not dq.numel() or not dk.numel():
        return dq.zero_(), dk.zero_(), dv.zero_()
    dy, q, k, v, y, state = lines(dy), lines(q), lines(k), lines(v), y.contiguous(), state.contiguous()
    delta = q.new_empty((B, H, Q), dtype=torch.float32)
    grid = triton.cdiv(Q, 32), B * H
    sizes = {"D": D, "BLOCK": 32, "BLOCK_D": side(D, 256)}
    launch(attention_delta_kernel, grid, dy, y, delta, *places(dy), H, Q, **sizes, num_warps=4)

    parameters = *places(dy, q, k, v), *numbers(q, k, causal, window), D**-0.5 if scale is None else scale
    bounded, windowed, tensors = causal or window is not None, window is not None, (dy, q, k, v, state, delta)
    of_q = tile(Q, KV, q, 2, TILES)
    of_q |= {"D": D, "LEADING": windowed, "RAGGED": bounded or KV % of_q["OTHERS"] != 0}
    launch(attention_dq_kernel, (triton.cdiv(Q, of_q["BLOCK"]), B * H), *tensors, dq, *parameters, **of_q)
    of_k = tile(KV, Q, q, 2, TILES)
    of_k |= {"D": D, "LEADING": bounded, "RAGGED": windowed or Q % of_k["OTHERS"] != 0}
    launch(attention_dkdv_kernel, (triton.cdiv(KV, of_k["BLOCK"]), B * heads), *tensors, dk, dv, *parameters, **of_k)
    return dq, dk, dv


SOURCE = (Path(__file__), Path(triton_tiles.__file__))
BACKWARD = (
    Variant(
        4,
        "backward-two-walks",
        two_walks,
        "scores computed twice, so that no gradient is shared",
        SOURCE,
        needs_interpreter,
    ),
)
