"""Level 5: the Python side of embedding.cu."""

from functools import partial
from pathlib import Path

import torch

from kernels.arguments import as_rows, empty_contiguous
from kernels.cuda.rows import scalar_threads
from kernels.cuda.template import kernel
from kernels.hardware import WARP
from kernels.ops.embedding.native import SIGNATURE
from kernels.rung import rung
from kernels.vectors import pack_size

FILE = Path(__file__).with_name("embedding.cu")
ROWS, WARPS = 256, 16  # of the table, whose chains one block makes, and of that block at most
SHORTEST = 64  # tokens that are worth a warp
FEW = 1_024  # tokens, that each block compares with its own


def gather(by_packs, index, weight, padding_idx):
    y = SIGNATURE.empty_outputs(index, weight)
    if y.numel():
        rows = as_rows(weight)
        V, D = rows.shape
        size = pack_size(D, rows, y.view(-1, D)) if by_packs else 1
        arguments = (index.contiguous(), rows, y, rows.stride(0), V, D)
        kernel(FILE, "embedding_gather", y.dtype, size)((index.numel(),), (scalar_threads(D // size),), arguments)
    return y


def atomic(dy, index, weight, padding_idx):
    V, D = weight.shape
    sums = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
    if dy.numel():
        rows = as_rows(dy)
        arguments = (rows, index.contiguous(), sums, rows.stride(0), V, D, -1 if padding_idx is None else padding_idx)
        kernel(FILE, "embedding_backward_atomic", dy.dtype)((len(rows),), (scalar_threads(D),), arguments)
    return sums.to(weight.dtype)


def collect(dy, index, weight, padding_idx):
    """Deterministic: a row adds up its tokens in their order."""
    dweight = empty_contiguous(weight)
    if not dweight.numel():
        return dweight
    (V, D), tokens = weight.shape, index.numel()
    by_token = tokens < V
    if by_token:  # fewer blocks than one for each row; what has no token stays zero
        size = pack_size(dweight.numel(), dweight.view(-1))
        blocks = -(-dweight.numel() // (256 * size))
        kernel(FILE, "embedding_zeros", dweight.dtype, size)((blocks,), (256,), (dweight, dweight.numel()))
    if not tokens:
        return dweight
    rows, index, padding = as_rows(dy), index.contiguous(), -1 if padding_idx is None else padding_idx
    size = pack_size(D, rows, dweight)
    threads = min(scalar_threads(D // size), 256)
    across = -(-D // (size * threads))
    if by_token and tokens <= FEW:
        few = (rows, index, dweight, rows.stride(0), tokens, V, D, padding)
        kernel(FILE, "embedding_backward_few", dy.dtype, size)((tokens, across), (threads,), few)
        return dweight
    first, following = (torch.empty(n, dtype=torch.int32, device=dy.device) for n in (V, tokens))
    warps = min(max(-(-tokens // SHORTEST), 1), WARPS)
    stretch = -(-tokens // (warps * WARP)) * WARP
    given = (index, first, following, tokens, stretch, V, padding)
    kernel(FILE, "embedding_chains", ROWS, WARPS)((-(-V // ROWS),), (WARP, warps), given)
    grid = tokens if by_token else V, across
    arguments = (rows, index if by_token else None, first, following, dweight, rows.stride(0), D)
    kernel(FILE, "embedding_backward_collect", dy.dtype, size)(grid, (threads,), arguments)
    return dweight


FORWARD = (
    rung(5, "values", partial(gather, False), "one block an index, value by value", FILE),
    rung(5, "packs", partial(gather, True), "as wide loads as the rows allow", FILE),
)
BACKWARD = (
    rung(5, "atomic", atomic, "an atomic addition for each value that comes", FILE, deterministic=False),
    rung(5, "collect", collect, "each row adds up its own tokens, in their order", FILE),
)
