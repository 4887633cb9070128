"""Level 4: addition and RMS norm in Triton, forward: one program a row, which reads x and residual twice."""

from pathlib import Path

import triton
import triton.language as tl

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.operation import Variant
from kernels.triton.launch import launch
from kernels.unsupported import needs_interpreter


@triton.jit
def add_rms_norm_passes_kernel(
    x_ptr, residual_ptr, weight_ptr, y_ptr, h_ptr, x_stride, residual_stride, N, eps, BLOCK_N: tl.constexpr
):
    row, lanes = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK_N)
    squares = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        columns, inside = start + lanes, start + lanes < N
        h = tl.load(x_ptr + row * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
        h += tl.load(residual_ptr + row * residual_stride + columns, mask=inside, other=0.0).to(tl.float32)
        tl.store(h_ptr + row * N + columns, h, mask=inside)
        squares += h * h
    rstd = 1.0 / tl.sqrt(tl.div_rn(tl.sum(squares), tl.cast(N, tl.float32)) + eps)
    for start in range(0, N, BLOCK_N):
        columns, inside = start + lanes, start + lanes < N
        # Not the h in memory, which has been rounded.
        h = tl.load(x_ptr + row * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
        h += tl.load(residual_ptr + row * residual_stride + columns, mask=inside, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * N + columns, h * rstd * weight, mask=inside)


def passes(x, residual, weight, eps):
    y, h = empty_contiguous(x), empty_contiguous(x)
    if x.numel():
        rows, residuals = as_rows(x), as_rows(residual)
        M, N = rows.shape
        block = min(triton.next_power_of_2(N), 8_192)
        arguments = (rows, residuals, as_columns(weight), y, h, rows.stride(0), residuals.stride(0), N, eps)
        launch(add_rms_norm_passes_kernel, (M,), *arguments, BLOCK_N=block, num_warps=max(block // 512, 1))
    return y, h


FORWARD = (Variant(4, "passes", passes, "one program a row, read twice", (Path(__file__),), needs_interpreter),)
