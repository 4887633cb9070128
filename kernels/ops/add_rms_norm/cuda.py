"""Level 5: the Python side of add_rms_norm.cu."""

from pathlib import Path

import numpy as np
import torch

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.cuda.rows import COLUMN_SUMS, NORM_COLUMNS, norm_columns, scalar_threads
from kernels.cuda.template import kernel
from kernels.rung import rung

FILE = Path(__file__).with_name("add_rms_norm.cu")


def warp(x, residual, weight, eps):
    y, h = empty_contiguous(x), empty_contiguous(x)
    if x.numel():
        rows, residuals = as_rows(x), as_rows(residual)
        M, N = rows.shape
        strides = rows.stride(0), residuals.stride(0)
        arguments = (rows, residuals, as_columns(weight), y, h, *strides, N, np.float32(eps))
        kernel(FILE, "add_rms_norm_warp", x.dtype)((M,), (scalar_threads(N),), arguments)
    return y, h


def columns(dy, dh, h, weight, eps):
    dx, dresidual, dweight = map(empty_contiguous, (h, h, weight))
    if not h.numel():
        return dx, dresidual, dweight.zero_()
    dy, dh, h = as_rows(dy), as_rows(dh), as_rows(h)
    M, N = h.shape
    statistics, strides = h.new_empty((M, 2), dtype=torch.float32), (dy.stride(0), dh.stride(0), h.stride(0))
    arguments = (dy, dh, h, as_columns(weight), dx, dresidual, statistics, *strides, N, np.float32(eps))
    kernel(FILE, "add_rms_norm_backward_rows", h.dtype)((M,), (scalar_threads(N),), arguments)
    norm_columns(kernel(FILE, "add_rms_norm_backward_columns", h.dtype), dy, h, statistics, dweight)
    return dx, dresidual, dweight


FORWARD = (rung(5, "warp", warp, "one block a row, the sum by shuffles", FILE, NORM_COLUMNS, COLUMN_SUMS),)
BACKWARD = (rung(5, "columns", columns, "dx by rows, dweight by columns", FILE, NORM_COLUMNS, COLUMN_SUMS),)
