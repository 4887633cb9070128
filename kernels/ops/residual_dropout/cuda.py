"""Level 5: the Python side of residual_dropout.cu.

What was tried for a large backward before its packs were stored by one instruction each: book/results/tried/dropout.json.
"""

from pathlib import Path

import numpy as np
import torch

from kernels.arguments import as_rows, empty_contiguous, in_32_bits
from kernels.cuda.template import kernel
from kernels.machine import multiprocessors
from kernels.random import most_below
from kernels.row_parts import THREADS_AT_ONCE
from kernels.rung import rung
from kernels.vectors import pack_size

FILE = Path(__file__).with_name("residual_dropout.cu")
QUAD = 4  # numbers of a counter, and values of a thread where all are there at a time
PACKS = 2  # of a thread, where enough threads are left for them
THREADS, FEW_THREADS = 256, 64
FULL = 2  # blocks of a multiprocessor, below which they are smaller and more; not timed yet


def fours(x, residual, p, seed):
    y = empty_contiguous(x)
    if not x.numel():
        return y
    given = [x] if residual is None else [x, residual]
    # What lies in memory as it is numbered is one row.
    shape = (1, -1) if all(tensor.is_contiguous() for tensor in given) else (-1, x.shape[-1])
    x, residual = (None if tensor is None else as_rows(tensor.reshape(shape)) for tensor in (x, residual))
    M, N = x.shape
    size = pack_size(N if M > 1 else 0, x, residual, y.view(M, N))
    if size < QUAD:  # a row may start within a counter
        size = 1
    elif x.numel() <= QUAD * THREADS_AT_ONCE * multiprocessors(x.device):
        size = QUAD
    strides = x.stride(0), x.stride(0) if residual is None else residual.stride(0)
    packs = N // size if size > 1 else 0
    threads = packs + N - packs * size  # one for each pack of a row, and for each element that is left over
    many = M * threads >= 2 * PACKS * THREADS_AT_ONCE * multiprocessors(x.device)
    of_thread = PACKS if packs and many else 1
    block = THREADS if M * threads >= THREADS * FULL * multiprocessors(x.device) else FEW_THREADS
    across = -(-threads // (block * of_thread))
    arguments = (x, residual, y, *strides, N, packs, across, np.float32(1 / max(1 - p, 1e-30)), seed, most_below(p))
    index = torch.int32 if in_32_bits(x, x if residual is None else residual, y) else torch.int64
    launched = kernel(FILE, "residual_dropout", x.dtype, index, size, of_thread, residual is not None)
    launched((M * across,), (block,), arguments)
    return y


def fours_again(dy, p, seed):
    return fours(dy, None, p, seed)


FORWARD = (rung(5, "fours", fours, "four random numbers by each counter", FILE),)
BACKWARD = (rung(5, "fours-again", fours_again, "the mask is made again", FILE),)
