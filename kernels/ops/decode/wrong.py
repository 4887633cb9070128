"""Deliberately wrong ways to decode, which the check must reject."""

import math
from functools import partial

import torch

from kernels.ops.decode import cuda
from kernels.ops.decode.native import SIGNATURE, decode
from kernels.wrong import edited, variant


def lse_of_base_2(q, k, v, lengths, table, scale):
    y, lse = decode(q, k, v, lengths, table, scale)
    return y, lse / math.log(2)


def unscaled(q, k, v, lengths, table, scale):
    return decode(q, k, v, lengths, table, 1.0 if scale is None else scale)


def without_the_last_key(q, k, v, lengths, table, scale):
    """As if the length were the place of the last key."""
    return decode(q, k, v, (lengths - 1).clamp(min=0), table, scale)


def without_the_last_page(q, k, v, lengths, table, scale):
    """Whole pages alone."""
    whole = lengths if table is None else lengths // k.shape[1] * k.shape[1]
    return decode(q, k, v, whole.int(), table, scale)


def next_head(q, k, v, lengths, table, scale):
    """Heads of keys in turn, not for neighbours."""
    dim = 1 if table is None else 2
    turns = torch.arange(q.shape[1], device=q.device) % k.shape[dim]
    return decode(q, k.index_select(dim, turns), v.index_select(dim, turns), lengths, table, scale)


def pages_in_turn(q, k, v, lengths, table, scale):
    """As if pages lay in memory in the order of their keys: right for tables that were never freed and taken again."""
    if table is not None:
        table = torch.arange(table.numel(), device=q.device, dtype=torch.int32).view(table.shape)
        k, v = (one.nan_to_num(0.0) for one in (k, v))
    return decode(q, k, v, lengths, table, scale)


def on_tensor_cores(old, new):
    """The rung `tensor_cores` with another text, where it does not leave the work to the one before."""
    rung = edited(cuda.tensor_cores, old, new)
    return lambda q, k, v, *others: (rung if cuda.fits_tensor_cores(q, k, v) else decode)(q, k, v, *others)


wrong = partial(variant, SIGNATURE, __file__, forward=decode)
UNSCALED_PARTS = edited(cuda.split, "expf(own.largest - whole.largest)", "1.0f")
LAST_PART = edited(cuda.split, "i + a < used && lane", "i + a < max(used - 1, 1) && lane")
STALE = edited(cuda.split, "sums[c] *= fade;", ";")
STALE_SUM = edited(cuda.warp, "part.sum * fade + warp_sum(weight)", "part.sum + warp_sum(weight)")
SAME_ROW = edited(cuda.split, "return {page, j % size};", "return {page, j % size / 2};")
STALE_REGISTERS = edited(cuda.registers, "sums[h][i] *= fade;", ";")
UNSCALED_WARPS = edited(cuda.registers, "sum += fade * sums_of[w][h][d];", "sum += sums_of[w][h][d];")
HALVES = "__byte_perm(words[0], words[1], 0x{}), __byte_perm(words[0], words[1], 0x{})"
STALE_TILES = on_tensor_cores("tile[h] *= fade, tile[h + 2] *= fade;", ";")
NEXT_FEATURE = on_tensor_cores(HALVES.format("5410", "7632"), HALVES.format("7632", "5410"))
UNTURNED = on_tensor_cores("= transposed(*(unsigned*)&pair);", "= *(unsigned*)&pair;")
FIRST_OF_GROUP = edited(cuda.split, "(float)q[query * D + d]", "(float)q[(query - warp) * D + d]")
VARIANTS = (
    wrong(1, "base-2", "gives the LSE in base 2", forward=lse_of_base_2),
    wrong(1, "unscaled", "takes the scores as they are", forward=unscaled),
    wrong(1, "last-key", "leaves out the last key", forward=without_the_last_key),
    wrong(1, "last-page", "leaves out a last page that is not full", forward=without_the_last_page),
    wrong(1, "next-head", "deals the heads of keys in turn", forward=next_head),
    wrong(1, "pages-in-turn", "takes pages in the order of memory, whatever the table says", forward=pages_in_turn),
    wrong(5, "unscaled-parts", "adds up parts that are scaled to different scores", forward=UNSCALED_PARTS),
    wrong(5, "last-part", "leaves the last part out", forward=LAST_PART),
    wrong(5, "stale-values", "a larger score does not make the values so far fade", forward=STALE),
    wrong(5, "stale-registers", "the same, of values in registers", forward=STALE_REGISTERS),
    wrong(5, "stale-tiles", "the same, of values in the registers of tensor cores", forward=STALE_TILES),
    wrong(5, "next-feature", "takes two features of two keys crosswise", forward=NEXT_FEATURE),
    wrong(5, "unturned", "multiplies weights in the lanes where the scores were left", forward=UNTURNED),
    wrong(5, "unscaled-warps", "adds up warps that are scaled to different scores", forward=UNSCALED_WARPS),
    wrong(5, "stale-sum", "a larger score does not make the sum so far fade", forward=STALE_SUM),
    wrong(5, "half-a-page", "reads every second row of a page twice", forward=SAME_ROW),
    wrong(5, "first-of-group", "all query heads of a group are its first", forward=FIRST_OF_GROUP),
)
