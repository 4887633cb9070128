"""Level 5: the Python side of decode.cu."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from kernels.cuda.kernel import Kernel
from kernels.cuda.rows import power_of_2_from
from kernels.cuda.template import kernel
from kernels.machine import target
from kernels.ops.decode import cache
from kernels.ops.decode.cache import beyond_grid, by_sequences, in_pages, parts, strides
from kernels.ops.decode.native import SIGNATURE
from kernels.rung import rung
from kernels.vectors import heads_in_vectors

FILE = Path(__file__).with_name("decode.cu")
REGISTERS_FILE = Path(__file__).with_name("decode_registers.cu")
HEADS, WARPS = 8, 4  # of a block: query heads at most, as decode.cu has it, and warps at least, which copy
REGISTER_HEADS = 4  # whose features and sums fit in the registers of decode_registers
TENSOR_CORES_FILE = Path(__file__).with_name("decode_tensor_cores.cu")
SHAPES = {64: (8, 1, 2), 128: (8, 2, 1), 192: (4, 1, 2), 256: (4, 1, 2)}
"""Of decode_tensor_cores, by WIDTH: warps of a block, tiles that a warp takes at a time, and blocks of a multiprocessor. What
others take stands in book/results/tried/decode_tiles.json; no other of 192 is timed."""


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


class Block(NamedTuple):
    """Of a kernel that has a part of the keys: the query heads that a block has at most, its threads, and how many of them a
    multiprocessor takes."""

    launch: Kernel
    heads: int
    threads: int
    together: int = cache.BLOCKS


def split_block(q, k, v) -> Block:
    group = q.shape[1] // k.shape[2]
    launch = kernel(FILE, "decode_split", q.dtype, pack(k, v), width(q.shape[2]))
    return Block(launch, HEADS, 32 * max(min(group, HEADS), WARPS))


def registers_block(q, k, v) -> Block:
    heads = min(power_of_2_from(q.shape[1] // k.shape[2]), REGISTER_HEADS)
    launch = kernel(REGISTERS_FILE, "decode_registers", q.dtype, pack(k, v), width(q.shape[2]), heads)
    return Block(launch, heads, 32 * WARPS)


def fits_tensor_cores(q, k, v) -> bool:
    """Half types, in rows that are whole vectors, on a GPU from sm_80 on."""
    return q.itemsize == 2 and heads_in_vectors(k, v) and "bfloat16" in target(q.device).features


def tensor_cores_block(q, k, v) -> Block:
    """Where it does not fit, that of the rung before."""
    if not fits_tensor_cores(q, k, v):
        return registers_block(q, k, v)
    wide = -(-q.shape[2] // 64) * 64
    warps, tiles, together = SHAPES[wide]
    launch = kernel(TENSOR_CORES_FILE, "decode_tensor_cores", q.dtype, wide, warps, tiles, together)
    return Block(launch, HEADS, 32 * warps, together)


def pack(k, v) -> int:
    """Elements that one load takes."""
    return 16 // k.itemsize if heads_in_vectors(k, v) else 1


def by_parts(block, q, k, v, lengths, table, scale):
    """By the kernel of `block(q, k, v)`, and by decode_join."""
    if beyond_grid(q, k, table):
        return by_sequences(partial(by_parts, block), q, k, v, lengths, table, scale)
    y, lse = SIGNATURE.empty_outputs(q)
    if not (queries := lse.numel()):
        return y, lse
    q, k, v, lengths, table = tensors = contiguous(q, k, v, lengths, table)
    (B, H, D), heads = q.shape, k.shape[2]
    launch, most, threads, together = block(q, k, v)
    blocks = -(-H // heads // most)
    many = parts(B * heads * blocks, k, table, together)
    values = torch.empty((B, H, many, D), dtype=torch.float32, device=q.device)
    softmax_parts = torch.empty((B, H, many, 2), dtype=torch.float32, device=q.device)
    launch((many, B * heads, blocks), (threads,), (*tensors, values, softmax_parts, *numbers(q, k, v, table, scale)))
    join = kernel(FILE, "decode_join", q.dtype, width(D))
    join((-(-queries // 4),), (128,), (values, softmax_parts, lengths, y, lse, queries, H, D, many))
    return y, lse


split = partial(by_parts, split_block)
registers = partial(by_parts, registers_block)
tensor_cores = partial(by_parts, tensor_cores_block)

FORWARD = (
    rung(5, "warp", warp, "a warp a query, which reads all of its keys", FILE, cache),
    rung(5, "split", split, "parts of the keys, each read once for a group of heads", FILE, cache),
    rung(5, "registers", registers, "parts that go from memory to registers", REGISTERS_FILE, FILE, cache),
    rung(
        5,
        "tensor_cores",
        tensor_cores,
        "products on tensor cores, of vectors as they come from memory",
        TENSOR_CORES_FILE,
        REGISTERS_FILE,
        FILE,
        cache,
    ),
)
