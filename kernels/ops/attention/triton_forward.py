"""Level 4, forward: a program has a tile of queries and walks over the keys that they see.

The softmax is online: of the keys so far a query keeps its largest score and the sum of exponentials, and what was added up
of the values fades when a larger score comes. Only blocks at the edge of what is seen are masked; those beyond are skipped.
"""

from pathlib import Path

import triton
import triton.language as tl

from kernels.operation import Variant
from kernels.ops.attention import triton_tiles
from kernels.ops.attention.native import SIGNATURE
from kernels.ops.attention.triton_tiles import (
    HALF_TILES,
    LOG2_E,
    beyond_grid,
    by_sequences,
    in_band,
    lines,
    load_rows,
    numbers,
    place_of,
    places,
    store_rows,
    stretches,
    tile,
)
from kernels.triton.launch import launch
from kernels.unsupported import needs_interpreter


@triton.jit
def add_keys(
    y, total, largest, q, k, v, k_place, v_place, begin, end, at, KV, left, right, scale,
    D: tl.constexpr, MASKED: tl.constexpr, OTHERS: tl.constexpr, BLOCK_D: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """What the keys from `begin` to `end` add. `at`: the places of the queries. `scale` is that of exponents of 2."""
    for start in tl.range(begin, end, OTHERS, num_stages=STAGES):
        keys = load_rows(k, k_place, start, KV, D, not MASKED, OTHERS, BLOCK_D)
        s = tl.dot(q, tl.trans(keys), input_precision="ieee")
        if MASKED:
            columns = start + tl.arange(0, OTHERS)
            visible = in_band(columns[None, :] - at[:, None], left, right) & (columns < end)[None, :]
            s = tl.where(visible, s, float("-inf"))
        larger = tl.maximum(largest, tl.max(s, 1))
        # Without a key so far the largest is -inf, and -inf - -inf is NaN.
        shift = tl.where(larger == float("-inf"), 0.0, larger) if MASKED else larger
        # The largest weight is 1 to the bit. s * scale - shift * scale is one instruction less, and rounds shift * scale alone:
        # of a score of 1e4 that is a thousandth.
        p, fade = tl.exp2((s - shift[:, None]) * scale), tl.exp2((largest - shift) * scale)
        total = total * fade + tl.sum(p, 1)
        values = load_rows(v, v_place, start, KV, D, not MASKED, OTHERS, BLOCK_D)
        y = tl.dot(p.to(values.dtype), values, y * fade[:, None], input_precision="ieee")
        largest = larger
    return y, total, largest


@triton.jit
def attention_forward_kernel(
    q, k, v, y_ptr, lse_ptr, state_ptr, q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    H, GROUP, Q, KV, left, right, scale, D: tl.constexpr, LEADING: tl.constexpr, RAGGED: tl.constexpr,
    BLOCK: tl.constexpr, OTHERS: tl.constexpr, BLOCK_D: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    # The last queries first: under a causal mask they see the most keys.
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK
    head = tl.program_id(1).to(tl.int64)
    b, h = head // H, head % H
    k_place = place_of(k, b, h // GROUP, k_batch, k_head, k_row)
    v_place = place_of(v, b, h // GROUP, v_batch, v_head, v_row)
    q = load_rows(q, place_of(q, b, h, q_batch, q_head, q_row), first, Q, D, False, BLOCK, BLOCK_D)

    rows = first + tl.arange(0, BLOCK)
    at, place = rows + KV - Q, first + KV - Q
    last = tl.minimum(first + BLOCK, Q) - 1 + KV - Q
    begin, whole, ragged, end = stretches(place, last, KV, left, right, LEADING, OTHERS)

    y = tl.zeros((BLOCK, BLOCK_D), tl.float32)
    total, largest = tl.zeros((BLOCK,), tl.float32), tl.full((BLOCK,), float("-inf"), tl.float32)
    scale *= LOG2_E
    if LEADING:
        y, total, largest = add_keys(
            y, total, largest, q, k, v, k_place, v_place, begin, tl.minimum(whole, end), at, KV, left, right,
            scale, D, True, OTHERS, BLOCK_D, STAGES,
        )  # fmt: skip
    y, total, largest = add_keys(
        y, total, largest, q, k, v, k_place, v_place, whole, ragged, at, KV, left, right, scale,
        D, False, OTHERS, BLOCK_D, STAGES,
    )  # fmt: skip
    if RAGGED:
        y, total, largest = add_keys(
            y, total, largest, q, k, v, k_place, v_place, ragged, end, at, KV, left, right, scale,
            D, True, OTHERS, BLOCK_D, STAGES,
        )  # fmt: skip

    alone = total == 0
    total = tl.where(alone, 1.0, total)
    y /= total[:, None]
    lse = tl.where(alone, float("-inf"), (largest * scale + tl.log2(total)) / LOG2_E)
    store_rows(y_ptr + head * Q * D, D, first, Q, y, D, BLOCK, BLOCK_D)
    tl.store(lse_ptr + head * Q + rows, lse, mask=rows < Q)
    state_ptr += 2 * (head * Q + rows)
    tl.store(state_ptr, tl.where(alone, 0.0, largest), mask=rows < Q)
    tl.store(state_ptr + 1, tl.log2(total), mask=rows < Q)


def forward(given, options, q, k, v, causal, window, scale):
    """given: q, k and v as the kernel reads them, by pointers or by descriptors."""
    y, lse, state = SIGNATURE.empty_outputs(q)
    B, H, Q, D = q.shape
    if not y.numel():
        return y, lse, state
    bounded = causal or window is not None
    options |= {"D": D, "LEADING": window is not None, "RAGGED": bounded or k.shape[2] % options["OTHERS"] != 0}
    grid = triton.cdiv(Q, options["BLOCK"]), B * H
    parameters = *places(q, k, v), *numbers(q, k, causal, window), D**-0.5 if scale is None else scale
    launch(attention_forward_kernel, grid, *given, y, lse, state, *parameters, **options)
    return y, lse, state


def flash(q, k, v, causal, window, scale):
    if beyond_grid(q):
        return by_sequences(flash, q, k, v, causal, window, scale)
    given = q, k, v = lines(q), lines(k), lines(v)
    return forward(given, tile(q.shape[2], k.shape[2], q, 1, HALF_TILES), q, k, v, causal, window, scale)


SOURCE = (Path(__file__), Path(triton_tiles.__file__))
FORWARD = (Variant(4, "flash", flash, "keys by blocks, the softmax kept up to date", SOURCE, needs_interpreter),)
