"""Level 5: the Python side of add_rms_norm.cu."""

from pathlib import Path

import numpy as np
import torch

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.cuda.includes import DEVICE
from kernels.cuda.rows import COLUMN_SUMS, column_sums, scalar_threads
from kernels.cuda.template import kernel
from kernels.machine import multiprocessors
from kernels.operation import Variant
from kernels.ops.layer_norm.cuda_backward import column_blocks
from kernels.unsupported import needs_compiler

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
    dx, dresidual, dweight = (empty_contiguous(like) for like in (h, h, weight))
    if not h.numel():
        return dx, dresidual, dweight.zero_()
    dys, dhs, rows = as_rows(dy), as_rows(dh), as_rows(h)
    M, N = rows.shape
    rstd, strides = h.new_empty(M, dtype=torch.float32), tuple(m.stride(0) for m in (dys, dhs, rows))
    arguments = (dys, dhs, rows, as_columns(weight), dx, dresidual, rstd, *strides, N, np.float32(eps))
    kernel(FILE, "add_rms_norm_backward_rows", h.dtype)((M,), (scalar_threads(N),), arguments)
    G = column_blocks(M, N, multiprocessors(h.device))
    partial = h.new_empty((G, 1, N), dtype=torch.float32)
    arguments = (dys, rows, rstd, partial, strides[0], strides[2], M, N)
    kernel(FILE, "add_rms_norm_backward_columns", h.dtype)((-(-N // 32), G), (32, 8), arguments)
    column_sums(partial, dweight)
    return dx, dresidual, dweight


SOURCE = (FILE, DEVICE / "reductions.cuh", COLUMN_SUMS, Path(__file__))
FORWARD = (Variant(5, "warp", warp, "one block a row, the sum by shuffles", SOURCE, needs_compiler),)
BACKWARD = (Variant(5, "columns", columns, "dx by rows, dweight by columns", SOURCE, needs_compiler),)
