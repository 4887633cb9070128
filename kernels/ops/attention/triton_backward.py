"""Level 4, backward: scores are computed again from q, k and the state of the softmax, twice: no two programs add to one
gradient.

Three kernels: three numbers a query; dq, a program a tile of queries, which walks over keys; dk and dv, a program a tile of
keys, which walks over the queries of every head that shares them. Given sums for dq, the last adds what its scores give those,
too, and the second is not needed (triton_one_walk.py).
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
    beyond_grid,
    by_sequences,
    in_band,
    lines,
    load_rows,
    numbers,
    place_of,
    places,
    side,
    store_rows,
    stretches,
    tile,
)
from kernels.triton.launch import launch
from kernels.unsupported import needs_interpreter

TILES = (
    (128, 64, 8, 3),
    (128, 64, 8, 2),
    (64, 32, 8, 2),
    (32, 32, 8, 2),
)  # as HALF_TILES, and smaller: two sums are in registers


@triton.jit
def attention_queries_kernel(
    dy_ptr, y_ptr, state_ptr, queries_ptr, dy_batch, dy_head, dy_row, H, Q,
    D: tl.constexpr, BLOCK: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The state of the softmax, and delta_i = dy_i · y_i, which the gradients of a query's scores have in common. The same
    number of all queries lies together: tiles of keys load them for many queries at a time, again and again."""
    first, head = tl.program_id(0) * BLOCK, tl.program_id(1).to(tl.int64)
    dy_place = place_of(dy_ptr, head // H, head % H, dy_batch, dy_head, dy_row)
    dy = load_rows(dy_ptr, dy_place, first, Q, D, False, BLOCK, BLOCK_D).to(tl.float32)
    y = load_rows(y_ptr, (head * Q * D, D), first, Q, D, False, BLOCK, BLOCK_D).to(tl.float32)
    rows = first + tl.arange(0, BLOCK)
    inside, plane = rows < Q, tl.num_programs(1).to(tl.int64) * Q
    state_ptr += 2 * (head * Q + rows)
    queries_ptr += head * Q + rows
    tl.store(queries_ptr, tl.load(state_ptr, mask=inside), mask=inside)
    tl.store(queries_ptr + plane, tl.load(state_ptr + 1, mask=inside), mask=inside)
    tl.store(queries_ptr + 2 * plane, tl.sum(dy * y, 1), mask=inside)


@triton.jit
def load_queries(ptr, plane, rows, n, INSIDE: tl.constexpr):
    """Of queries, the largest q · k, the logarithm of the sum to the base 2, and delta."""
    ptr += rows
    if INSIDE:
        return tl.load(ptr), tl.load(ptr + plane), tl.load(ptr + 2 * plane)
    inside = rows < n
    largest, log_sum = tl.load(ptr, mask=inside, other=0.0), tl.load(ptr + plane, mask=inside, other=0.0)
    return largest, log_sum, tl.load(ptr + 2 * plane, mask=inside, other=0.0)


@triton.jit
def add_keys(
    dq, q, dy, largest, log_sum, delta, k, v, k_place, v_place, begin, end, at, KV, left, right, scale,
    D: tl.constexpr, MASKED: tl.constexpr, OTHERS: tl.constexpr, BLOCK_D: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    for start in tl.range(begin, end, OTHERS, num_stages=STAGES):
        keys = load_rows(k, k_place, start, KV, D, not MASKED, OTHERS, BLOCK_D)
        values = load_rows(v, v_place, start, KV, D, not MASKED, OTHERS, BLOCK_D)
        s = tl.dot(q, tl.trans(keys), input_precision="ieee")
        p = tl.exp2((s - largest[:, None]) * scale - log_sum[:, None])
        if MASKED:
            columns = start + tl.arange(0, OTHERS)
            visible = in_band(columns[None, :] - at[:, None], left, right) & (columns < end)[None, :]
            p = tl.where(visible, p, 0.0)
        ds = p * (tl.dot(dy, tl.trans(values), input_precision="ieee") - delta[:, None])
        dq = tl.dot(ds.to(keys.dtype), keys, dq, input_precision="ieee")
    return dq


@triton.jit
def attention_dq_kernel(
    dy, q, k, v, queries_ptr, dq_ptr, dy_batch, dy_head, dy_row, q_batch, q_head, q_row, k_batch, k_head,
    k_row, v_batch, v_head, v_row, H, GROUP, Q, KV, left, right, scale,
    D: tl.constexpr, LEADING: tl.constexpr, RAGGED: tl.constexpr,
    BLOCK: tl.constexpr, OTHERS: tl.constexpr, BLOCK_D: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK
    head = tl.program_id(1).to(tl.int64)
    b, h = head // H, head % H
    k_place = place_of(k, b, h // GROUP, k_batch, k_head, k_row)
    v_place = place_of(v, b, h // GROUP, v_batch, v_head, v_row)
    q = load_rows(q, place_of(q, b, h, q_batch, q_head, q_row), first, Q, D, False, BLOCK, BLOCK_D)
    dy = load_rows(dy, place_of(dy, b, h, dy_batch, dy_head, dy_row), first, Q, D, False, BLOCK, BLOCK_D)
    rows = first + tl.arange(0, BLOCK)
    plane = tl.num_programs(1).to(tl.int64) * Q
    largest, log_sum, delta = load_queries(queries_ptr + head * Q, plane, rows, Q, False)

    at, place = rows + KV - Q, first + KV - Q
    last = tl.minimum(first + BLOCK, Q) - 1 + KV - Q
    begin, whole, ragged, end = stretches(place, last, KV, left, right, LEADING, OTHERS)
    dq = tl.zeros((BLOCK, BLOCK_D), tl.float32)
    scale_log2e = scale * LOG2_E
    if LEADING:
        dq = add_keys(
            dq, q, dy, largest, log_sum, delta, k, v, k_place, v_place, begin,
            tl.minimum(whole, end), at, KV, left, right, scale_log2e, D, True, OTHERS, BLOCK_D, STAGES,
        )  # fmt: skip
    dq = add_keys(
        dq, q, dy, largest, log_sum, delta, k, v, k_place, v_place, whole, ragged, at, KV, left, right, scale_log2e,
        D, False, OTHERS, BLOCK_D, STAGES,
    )  # fmt: skip
    if RAGGED:
        dq = add_keys(
            dq, q, dy, largest, log_sum, delta, k, v, k_place, v_place, ragged, end, at, KV, left, right, scale_log2e,
            D, True, OTHERS, BLOCK_D, STAGES,
        )  # fmt: skip
    store_rows(dq_ptr + head * Q * D, D, first, Q, dq * scale, D, BLOCK, BLOCK_D)


@triton.jit
def add_queries(
    dk, dv, k, v, q, dy, queries_ptr, dq_ptr, plane, q_place, dy_place, begin, end, columns, Q, KV, left, right,
    scale, D: tl.constexpr, MASKED: tl.constexpr, OTHERS: tl.constexpr, BLOCK_D: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Tiles of scores lie with a row for each key here, as the sums of dk and dv want them."""
    for start in tl.range(begin, end, OTHERS, num_stages=STAGES):
        rows = start + tl.arange(0, OTHERS)
        q_tile = load_rows(q, q_place, start, Q, D, not MASKED, OTHERS, BLOCK_D)
        dy_tile = load_rows(dy, dy_place, start, Q, D, not MASKED, OTHERS, BLOCK_D)
        largest, log_sum, delta = load_queries(queries_ptr, plane, rows, end, not MASKED)
        s = tl.dot(k, tl.trans(q_tile), input_precision="ieee")
        p = tl.exp2((s - largest[None, :]) * scale - log_sum[None, :])
        if MASKED:
            visible = in_band(columns[:, None] - (rows + KV - Q)[None, :], left, right) & (rows < end)[None, :]
            p = tl.where(visible, p, 0.0)
        dv = tl.dot(p.to(dy_tile.dtype), dy_tile, dv, input_precision="ieee")
        ds = (p * (tl.dot(v, tl.trans(dy_tile), input_precision="ieee") - delta[None, :])).to(q_tile.dtype)
        dk = tl.dot(ds, q_tile, dk, input_precision="ieee")
        if dq_ptr is not None:
            lanes = tl.arange(0, BLOCK_D)
            sums = dq_ptr + rows.to(tl.int64)[:, None] * D + lanes[None, :]
            # Behind the last key a score is 0: far above all others its weight is infinite, and 0 · inf is NaN.
            ds = tl.where((columns < KV)[:, None], ds, 0.0)
            dq_tile = tl.dot(tl.trans(ds), k, input_precision="ieee")
            tl.atomic_add(sums, dq_tile, mask=(rows < end)[:, None] & (lanes < D)[None, :], sem="relaxed")
    return dk, dv


@triton.jit
def attention_dkdv_kernel(
    dy, q, k, v, queries_ptr, dk_ptr, dv_ptr, dq_ptr, dy_batch, dy_head, dy_row, q_batch, q_head, q_row,
    k_batch, k_head, k_row, v_batch, v_head, v_row, H, GROUP, Q, KV, left, right, scale,
    D: tl.constexpr, LEADING: tl.constexpr, RAGGED: tl.constexpr,
    BLOCK: tl.constexpr, OTHERS: tl.constexpr, BLOCK_D: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK  # under a causal mask the first keys are seen by the most queries
    head = tl.program_id(1).to(tl.int64)
    heads = H // GROUP
    b, kv_head = head // heads, head % heads
    k = load_rows(k, place_of(k, b, kv_head, k_batch, k_head, k_row), first, KV, D, False, BLOCK, BLOCK_D)
    v = load_rows(v, place_of(v, b, kv_head, v_batch, v_head, v_row), first, KV, D, False, BLOCK, BLOCK_D)
    columns = first + tl.arange(0, BLOCK)
    # Counted from the first query's place, a key meets queries from `right` before it to `left` behind it.
    place = first - (KV - Q)
    last = tl.minimum(first + BLOCK, KV) - 1 - (KV - Q)
    begin, whole, ragged, end = stretches(place, last, Q, right, left, LEADING, OTHERS)
    dk, dv = tl.zeros((BLOCK, BLOCK_D), tl.float32), tl.zeros((BLOCK, BLOCK_D), tl.float32)
    scale_log2e, plane = scale * LOG2_E, tl.num_programs(1).to(tl.int64) * GROUP * Q
    for member in range(GROUP):
        h = kv_head * GROUP + member
        q_place = place_of(q, b, h, q_batch, q_head, q_row)
        dy_place = place_of(dy, b, h, dy_batch, dy_head, dy_row)
        row_start = (b * H + h) * Q
        dq_start = None if dq_ptr is None else dq_ptr + row_start * D
        if LEADING:
            dk, dv = add_queries(
                dk, dv, k, v, q, dy, queries_ptr + row_start, dq_start, plane, q_place, dy_place, begin,
                tl.minimum(whole, end), columns, Q, KV, left, right, scale_log2e, D, True, OTHERS, BLOCK_D, STAGES,
            )  # fmt: skip
        dk, dv = add_queries(
            dk, dv, k, v, q, dy, queries_ptr + row_start, dq_start, plane, q_place, dy_place, whole, ragged,
            columns, Q, KV, left, right, scale_log2e, D, False, OTHERS, BLOCK_D, STAGES,
        )  # fmt: skip
        if RAGGED:
            dk, dv = add_queries(
                dk, dv, k, v, q, dy, queries_ptr + row_start, dq_start, plane, q_place, dy_place, ragged, end,
                columns, Q, KV, left, right, scale_log2e, D, True, OTHERS, BLOCK_D, STAGES,
            )  # fmt: skip
    store_rows(dk_ptr + head * KV * D, D, first, KV, dk * scale, D, BLOCK, BLOCK_D)
    store_rows(dv_ptr + head * KV * D, D, first, KV, dv, D, BLOCK, BLOCK_D)


def query_statistics(dy, y, state) -> torch.Tensor:
    dy, (B, H, Q, D) = lines(dy), y.shape
    queries = y.new_empty((3, B, H, Q), dtype=torch.float32)
    grid, sizes = (triton.cdiv(Q, 32), B * H), {"D": D, "BLOCK": 32, "BLOCK_D": side(D, 256)}
    launch(attention_queries_kernel, grid, dy, y, state, queries, *places(dy), H, Q, **sizes, num_warps=4)
    return queries


def walk_keys(sums, given, options, dy, q, k, v, queries, causal, window, scale) -> tuple[torch.Tensor, torch.Tensor]:
    """dk and dv; dq / scale is added to `sums`, unless they are None. given: dy, q, k and v as the kernel reads them, by
    pointers or by descriptors."""
    dk, dv = empty_contiguous(k), empty_contiguous(v)
    (_, _, Q, D), (B, heads, KV, _) = q.shape, k.shape
    bounded, windowed = causal or window is not None, window is not None
    options |= {"D": D, "LEADING": bounded, "RAGGED": windowed or Q % options["OTHERS"] != 0}
    grid = triton.cdiv(KV, options["BLOCK"]), B * heads
    parameters = *places(dy, q, k, v), *numbers(q, k, causal, window), scale
    launch(attention_dkdv_kernel, grid, *given, queries, dk, dv, sums, *parameters, **options)
    return dk, dv


def walk_queries(given, options, dy, q, k, v, queries, causal, window, scale) -> torch.Tensor:
    """dq."""
    dq = empty_contiguous(q)
    (B, H, Q, D), KV = q.shape, k.shape[2]
    options |= {"D": D, "LEADING": window is not None}
    options["RAGGED"] = causal or window is not None or KV % options["OTHERS"] != 0
    parameters = *places(dy, q, k, v), *numbers(q, k, causal, window), scale
    grid = triton.cdiv(Q, options["BLOCK"]), B * H
    launch(attention_dq_kernel, grid, *given, queries, dq, *parameters, **options)
    return dq


def two_walks(dy, q, k, v, y, state, causal, window, scale):
    if beyond_grid(q):
        return by_sequences(two_walks, dy, q, k, v, y, state, causal, window, scale)
    Q, KV = q.shape[2], k.shape[2]
    if not q.numel() or not k.numel():
        return tuple(empty_contiguous(one).zero_() for one in (q, k, v))
    given = dy, q, k, v = lines(dy), lines(q), lines(k), lines(v)
    queries = query_statistics(dy, y.contiguous(), state.contiguous())
    numbers_of_all = *given, queries, causal, window, q.shape[3] ** -0.5 if scale is None else scale
    dq = walk_queries(given, tile(Q, KV, q, 2, TILES), *numbers_of_all)
    return dq, *walk_keys(None, given, tile(KV, Q, q, 2, TILES), *numbers_of_all)


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
