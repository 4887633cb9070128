"""Level 5: the Python side of add_rms_norm.cu."""

from pathlib import Path

import numpy as np
import torch

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.cuda.rows import COLUMN_SUMS, NORM_COLUMNS, norm_columns, one_block_a_row, pack_size, threads_of_few
from kernels.cuda.template import kernel
from kernels.hardware import WARP
from kernels.row_parts import at_once
from kernels.rung import rung

FILE = Path(__file__).with_name("add_rms_norm.cu")
WIDEST_KEPT = 8_192  # columns up to which a multiprocessor's registers hold several rows at once
VALUES = 16  # of a row that a thread holds, where not all rows are there at a time


def warp(x, residual, weight, eps):
    y, h = empty_contiguous(x), empty_contiguous(x)
    launched = kernel(FILE, "add_rms_norm_warp", x.dtype)
    one_block_a_row(launched, (x, residual), (as_columns(weight), y, h), np.float32(eps))
    return y, h


def kept(x, residual, weight, eps):
    N = x.shape[-1]
    if not x.numel() or N > WIDEST_KEPT:
        return warp(x, residual, weight, eps)
    y, h, x, residual, weight = (
        empty_contiguous(x), empty_contiguous(x), as_rows(x), as_rows(residual), as_columns(weight)
    )  # fmt: skip
    M, size = len(x), pack_size(N, x, residual, weight, y, h)
    # With 16 values a thread, whose registers h and the weights take, several rows are on a multiprocessor.
    threads = threads_of_few(N, size) if at_once(M, N, x.device) else WARP * -(-N // (WARP * VALUES))
    arguments = (x, residual, weight, y, h, x.stride(0), residual.stride(0), N, np.float32(eps))
    launched = kernel(FILE, "add_rms_norm_kept", x.dtype, size, -(-N // (size * threads)), threads)
    launched((M,), (threads,), arguments)
    return y, h


def columns(dy, dh, h, weight, eps):
    dx, dresidual, dweight = map(empty_contiguous, (h, h, weight))
    if not h.numel():
        return dx, dresidual, dweight.zero_()
    dy, dh, h = as_rows(dy), as_rows(dh), as_rows(h)
    statistics = h.new_empty((len(h), 2), dtype=torch.float32)
    launched = kernel(FILE, "add_rms_norm_backward_rows", h.dtype)
    one_block_a_row(launched, (dy, dh, h), (as_columns(weight), dx, dresidual, statistics), np.float32(eps))
    norm_columns(kernel(FILE, "add_rms_norm_backward_columns", h.dtype), dy, h, statistics, dweight)
    return dx, dresidual, dweight


FILES = FILE, NORM_COLUMNS, COLUMN_SUMS
FORWARD = (
    rung(5, "warp", warp, "one block a row, the sum by shuffles", *FILES),
    rung(5, "kept", kept, "loads as wide as rows allow, the row of h kept in registers", *FILES),
)
BACKWARD = (rung(5, "columns", columns, "dx by rows, dweight by columns", *FILES),)
