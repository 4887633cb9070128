"""Level 4: decoding in Triton. A program has a part of a sequence's keys, for all query heads of a group; a second kernel
joins the parts. Tensor cores take 16 rows at least: where a group has fewer heads, the others are zeros, and no bytes."""

import torch
import triton
import triton.language as tl

from kernels.machine import target
from kernels.ops.decode import cache
from kernels.ops.decode.cache import beyond_grid, by_sequences, in_pages, parts, strides
from kernels.ops.decode.native import SIGNATURE
from kernels.rung import rung
from kernels.triton.launch import ASSERTING, launch

LOG2_E = tl.constexpr(1.4426950408889634)  # exp(x) = exp2(x · log2 e), and a GPU has exp2
LARGE_TILE, TILE, FLOAT_TILE = 16_384, 4_096, 2_048
"""Values of keys that are read at once: half types, where there is LARGE_BYTES of shared memory and where there is less, and
float32. What others take stands in book/results/tried/decode_tiles.json."""
LARGE_BYTES = 160 << 10
MOST_HEADS = 64
SLOTS = 16  # parts that are joined at once


@triton.jit
def keys_of_part(length, PARTS, KEYS: tl.constexpr):
    """Keys of each part: whole tiles, as evenly as they go. The last parts may have none."""
    return tl.maximum(tl.cdiv(length, KEYS * PARTS), 1) * KEYS


@triton.jit
def load_tile(ptr, page, row, inside, page_stride, key_stride, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """Rows of pages, with zeros for keys that are not inside."""
    lanes = tl.arange(0, BLOCK_D)
    at = page * page_stride + row.to(tl.int64) * key_stride
    return tl.load(ptr + at[:, None] + lanes[None, :], mask=inside[:, None] & (lanes < D)[None, :], other=0.0)


@triton.jit
def decode_split_kernel(
    q_ptr, k_ptr, v_ptr, lengths_ptr, table_ptr, values_ptr, parts_ptr,
    k_page, k_key, k_head, v_page, v_key, v_head, H, GROUP, capacity, pages, scale, D: tl.constexpr, PAGE: tl.constexpr,
    KEYS: tl.constexpr, HEADS: tl.constexpr, BLOCK_D: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """PAGE: keys of a page; 0: the cache has no pages, and sequence b is page b."""
    part, PARTS = tl.program_id(0), tl.num_programs(0)
    heads = H // GROUP
    b, head = (tl.program_id(1) // heads).to(tl.int64), tl.program_id(1) % heads
    length = tl.load(lengths_ptr + b)
    tl.device_assert(
        (length >= 0) & (length <= capacity), "lengths: expected 0 to the keys that the cache has room for"
    )
    share = keys_of_part(length, PARTS, KEYS)
    begin, end = part * share, tl.minimum((part + 1) * share, length)
    if begin >= end:
        return
    member = tl.program_id(2) * HEADS + tl.arange(0, HEADS)
    query, lanes = b * H + head * GROUP + member, tl.arange(0, BLOCK_D)
    mine = (member < GROUP)[:, None] & (lanes < D)[None, :]
    q = tl.load(q_ptr + query[:, None] * D + lanes[None, :], mask=mine, other=0.0)
    k_ptr += head.to(tl.int64) * k_head
    v_ptr += head.to(tl.int64) * v_head

    values, total = tl.zeros((HEADS, BLOCK_D), tl.float32), tl.zeros((HEADS,), tl.float32)
    largest = tl.full((HEADS,), float("-inf"), tl.float32)
    for start in tl.range(begin, end, KEYS, num_stages=STAGES):
        key = start + tl.arange(0, KEYS)
        inside, page, row = key < end, b, key
        if PAGE > 0:
            page = tl.load(table_ptr + b * (capacity // PAGE) + key // PAGE, mask=inside, other=0).to(tl.int64)
            tl.device_assert((page >= 0) & (page < pages), "table: expected 0 to the number of pages - 1")
            row = key % PAGE
        k = load_tile(k_ptr, page, row, inside, k_page, k_key, D, BLOCK_D)
        s = tl.where(inside[None, :], tl.dot(q, tl.trans(k), input_precision="ieee") * scale, float("-inf"))
        larger = tl.maximum(largest, tl.max(s, 1))  # finite: a tile has a key at least
        p, fade = tl.exp2(s - larger[:, None]), tl.exp2(largest - larger)
        total = total * fade + tl.sum(p, 1)
        v = load_tile(v_ptr, page, row, inside, v_page, v_key, D, BLOCK_D)
        values = tl.dot(p.to(v.dtype), v, values * fade[:, None], input_precision="ieee")
        largest = larger

    at = query * PARTS + part
    tl.store(values_ptr + at[:, None] * D + lanes[None, :], values, mask=mine)
    tl.store(parts_ptr + 2 * at, largest, mask=member < GROUP)
    tl.store(parts_ptr + 2 * at + 1, total, mask=member < GROUP)


@triton.jit
def decode_join_kernel(
    values_ptr, parts_ptr, lengths_ptr, y_ptr, lse_ptr, H, PARTS,
    D: tl.constexpr, KEYS: tl.constexpr, SLOTS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    query, lanes, slots = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK_D), tl.arange(0, SLOTS)
    length = tl.load(lengths_ptr + query // H)
    used = tl.cdiv(length, keys_of_part(length, PARTS, KEYS))
    values = tl.zeros((BLOCK_D,), tl.float32)
    total, largest = 0.0, float("-inf")
    for start in range(0, used, SLOTS):
        inside, at = start + slots < used, query * PARTS + start + slots
        part_largest = tl.load(parts_ptr + 2 * at, mask=inside, other=float("-inf"))
        larger = tl.maximum(largest, tl.max(part_largest, 0))
        weights, fade = tl.exp2(part_largest - larger), tl.exp2(largest - larger)
        total = total * fade + tl.sum(weights * tl.load(parts_ptr + 2 * at + 1, mask=inside, other=0.0), 0)
        mask = inside[:, None] & (lanes < D)[None, :]
        come = tl.load(values_ptr + at[:, None] * D + lanes[None, :], mask=mask, other=0.0)
        values = values * fade + tl.sum(weights[:, None] * come, 0)
        largest = larger
    none = used == 0
    total = tl.where(none, 1.0, total)
    tl.store(y_ptr + query * D + lanes, values / total, mask=lanes < D)
    tl.store(lse_ptr + query, tl.where(none, float("-inf"), (largest + tl.log2(total)) / LOG2_E))


def tile(D: int, group: int, q: torch.Tensor) -> tuple[dict[str, int], int]:
    """And how many programs a multiprocessor is to have."""
    wide, large = max(triton.next_power_of_2(D), 16), target(q.device).shared_bytes_per_block >= LARGE_BYTES
    values, most, stages = (LARGE_TILE, 128, 2) if large else (TILE, 64, 3)
    if q.itemsize == 4:
        values, most, stages = FLOAT_TILE, 64, 1
    # The sums of all heads pass through shared memory, beside what is in it.
    most_heads = MOST_HEADS if 5 * MOST_HEADS * wide <= target(q.device).shared_bytes_per_block else MOST_HEADS // 2
    heads = min(max(triton.next_power_of_2(group), 16), most_heads)
    options = {"KEYS": min(max(values // wide, 16), most), "HEADS": heads, "BLOCK_D": wide, "STAGES": stages}
    return options, 2 if values == LARGE_TILE and wide > 64 else cache.BLOCKS


def split(q, k, v, lengths, table, scale):
    if beyond_grid(q, k, table):
        return by_sequences(split, q, k, v, lengths, table, scale)
    y, lse = SIGNATURE.empty_outputs(q)
    if not y.numel():
        return y, lse
    q, k, v, lengths = q.contiguous(), in_pages(k, table), in_pages(v, table), lengths.contiguous()
    (B, H, D), (pages, size, heads, _) = q.shape, k.shape
    options, together = tile(D, H // heads, q)
    blocks = triton.cdiv(H // heads, options["HEADS"])
    many = parts(B * heads * blocks, k, table, together)
    values = torch.empty((B, H, many, D), dtype=torch.float32, device=q.device)
    softmax_parts = torch.empty((B, H, many, 2), dtype=torch.float32, device=q.device)
    capacity = size if table is None else size * table.shape[1]
    scale = (D**-0.5 if scale is None else scale) * LOG2_E.value
    tensors = q, k, v, lengths, None if table is None else table.contiguous(), values, softmax_parts
    numbers = *strides(k, v), H, H // heads, capacity, pages, scale
    constants = options | {"D": D, "PAGE": 0 if table is None else size} | ASSERTING
    launch(decode_split_kernel, (many, B * heads, blocks), *tensors, *numbers, **constants)
    constants = {"D": D, "KEYS": options["KEYS"], "SLOTS": SLOTS, "BLOCK_D": options["BLOCK_D"]}
    launch(decode_join_kernel, (B * H,), values, softmax_parts, lengths, y, lse, H, many, **constants)
    return y, lse


FORWARD = (rung(4, "split", split, "parts of the keys, joined by a second kernel", cache),)
