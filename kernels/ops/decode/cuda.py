"""Level 5: the Python side of decode.cu."""

from pathlib import Path

import numpy as np
import torch

from kernels.cuda.rows import power_of_2_from
from kernels.cuda.template import kernel
from kernels.ops.decode import cache
from kernels.ops.decode.cache import in_pages, parts, strides
from kernels.ops.decode.native import SIGNATURE
from kernels.rung import rung
from kernels.vectors import heads_in_vectors

FILE = Path(__file__).with_name("decode.cu")
REGISTERS_FILE = Path(__file__).with_name("decode_registers.cu")
HEADS, WARPS = 8, 4  # of a block: query heads at most, as decode.cu has it, and warps at least, which copy
REGISTER_HEADS = 4  # whose features and sums fit in the registers of decode_registers


def width(D: int) -> int:
    """A power of two from D on."""
    return max(power_of_2_from(D), 16)


def numbers(q, k, v, table, scale) -> tuple:
    """What both kernels go by: strides, and from H on the sizes and the scale."""
    _, H, D = q.shape
    columns = 1 if table is None else table.shape[1]
    scale = np.float32(D**-0.5 if scale is None else scale)
    return *strides(k, v), H, H // k.shape[2], D, columns, *k.shape[:2], scale


def contiguous(q, k, v, lengths, table) -> tuple:
    pages = None if table is None else table.contiguous()
    return q.contiguous(), in_pages(k, table), in_pages(v, table), lengths.contiguous(), pages


def warp(q, k, v, lengths, table, scale):
    y, lse = SIGNATURE.empty_outputs(q)
    if queries := lse.numel():
        q, k, v, lengths, table = tensors = contiguous(q, k, v, lengths, table)
        *apart, H, GROUP, D, columns, many, size, scale = numbers(q, k, v, table, scale)
        arguments = (*tensors, y, lse, *apart, queries, H, GROUP, D, columns, many, size, scale)
        kernel(FILE, "decode_warp", q.dtype, width(D))((-(-queries // 4),), (128,), arguments)
    return y, lse


def group_of(q, k, table) -> int:
    """How many query heads share a head of keys."""
    return q.shape[1] // k.shape[1 if table is None else 2]


def split(q, k, v, lengths, table, scale):
    threads = 32 * max(min(group_of(q, k, table), HEADS), WARPS)
    return by_parts(FILE, "decode_split", HEADS, threads, (), q, k, v, lengths, table, scale)


def registers(q, k, v, lengths, table, scale):
    heads = min(power_of_2_from(group_of(q, k, table)), REGISTER_HEADS)
    return by_parts(REGISTERS_FILE, "decode_registers", heads, 32 * WARPS, (heads,), q, k, v, lengths, table, scale)


def by_parts(file, name, most, threads, parameters, q, k, v, lengths, table, scale):
    """By a kernel that has a part of the keys and at most so many query heads a block, and by decode_join."""
    y, lse = SIGNATURE.empty_outputs(q)
    if not (queries := lse.numel()):
        return y, lse
    q, k, v, lengths, table = tensors = contiguous(q, k, v, lengths, table)
    (B, H, D), heads = q.shape, k.shape[2]
    blocks = -(-H // heads // most)
    many = parts(B * heads * blocks, k, table)
    values = torch.empty((B, H, many, D), dtype=torch.float32, device=q.device)
    softmax_parts = torch.empty((B, H, many, 2), dtype=torch.float32, device=q.device)
    size = 16 // q.itemsize if heads_in_vectors(k, v) else 1
    arguments = (*tensors, values, softmax_parts, *numbers(q, k, v, table, scale))
    kernel(file, name, q.dtype, size, width(D), *parameters)((many, B * heads, blocks), (threads,), arguments)
    join = kernel(FILE, "decode_join", q.dtype, width(D))
    join((-(-queries // 4),), (128,), (values, softmax_parts, lengths, y, lse, queries, H, D, many))
    return y, lse


FORWARD = (
    rung(5, "warp", warp, "a warp a query, which reads all of its keys", FILE, cache),
    rung(5, "split", split, "parts of the keys, each read once for a group of heads", FILE, cache),
    rung(5, "registers", registers, "parts that go from memory to registers", REGISTERS_FILE, FILE, cache),
)
