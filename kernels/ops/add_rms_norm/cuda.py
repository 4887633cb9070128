"""Level 5: the Python side of add_rms_norm.cu."""

from pathlib import Path

import numpy as np
import torch

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.cuda.rows import COLUMN_SUMS, NORM_COLUMNS, norm_columns, one_block_a_row
from kernels.cuda.template import kernel
from kernels.rung import rung

FILE = Path(__file__).with_name("add_rms_norm.cu")


def warp(x, residual, weight, eps):
    y, h = empty_contiguous(x), empty_contiguous(x)
    launched = kernel(FILE, "add_rms_norm_warp", x.dtype)
    one_block_a_row(launched, (x, residual), (as_columns(weight), y, h), np.float32(eps))
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


FORWARD = (rung(5, "warp", warp, "one block a row, the sum by shuffles", FILE, NORM_COLUMNS, COLUMN_SUMS),)
BACKWARD = (rung(5, "columns", columns, "dx by rows, dweight by columns", FILE, NORM_COLUMNS, COLUMN_SUMS),)
