"""Level 4: layer norm in Triton, forward.

Rungs, plain to best:
    row    one program a row: the row is read once, kept in registers, and written once. A row too wide for the
           registers is read in three passes of 8,192 columns instead.

Each program computes, in float32, y = (x - mean) / sqrt(variance + eps) · weight + bias for one row of M×N.
"""

import torch
import triton
import triton.language as tl

from kernels.machine import Machine
from kernels.operation import Case
from kernels.ops.layer_norm.arguments import as_columns, as_rows
from kernels.ops.layer_norm.registration import register
from kernels.triton_launch import launch

# 32,768 float32 values are 32 registers for each of 1,024 threads, which have 64; twice as many would spill.
WIDEST_IN_REGISTERS = 32_768


@triton.jit
def row_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, row_stride, N, eps, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_N)
    inside = columns < N
    x = tl.load(x_ptr + row * row_stride + columns, mask=inside, other=0.0).to(tl.float32)
    # A plain / is approximate on a GPU: for a row of equal values it would leave x - mean a little off 0.
    mean = tl.div_rn(tl.sum(x), tl.cast(N, tl.float32))
    # Lanes beyond the row hold -mean by now, not 0: they must not enter the sum of squares.
    centred = tl.where(inside, x - mean, 0.0)
    variance = tl.sum(centred * centred) / N
    y = centred / tl.sqrt(variance + eps)
    if weight_ptr is not None:
        y *= tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    if bias_ptr is not None:
        y += tl.load(bias_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * N + columns, y, mask=inside)


@triton.jit
def wide_row_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, row_stride, N, eps, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * row_stride
    y_ptr += row * N
    lanes = tl.arange(0, BLOCK_N)

    total = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        columns = start + lanes
        total += tl.load(x_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    mean = tl.div_rn(tl.sum(total), tl.cast(N, tl.float32))

    squares = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        columns = start + lanes
        x = tl.load(x_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
        centred = tl.where(columns < N, x - mean, 0.0)
        squares += centred * centred
    rstd = 1.0 / tl.sqrt(tl.sum(squares) / N + eps)

    for start in range(0, N, BLOCK_N):
        columns = start + lanes
        inside = columns < N
        y = (tl.load(x_ptr + columns, mask=inside, other=0.0).to(tl.float32) - mean) * rstd
        if weight_ptr is not None:
            y *= tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        if bias_ptr is not None:
            y += tl.load(bias_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        tl.store(y_ptr + columns, y, mask=inside)


def unsupported(case: Case, machine: Machine) -> str | None:
    if machine.device == "cpu" and not machine.interpreting:
        return "on CPU tensors Triton runs only in its interpreter (TRITON_INTERPRET=1), and here it is the compiler"
    return None


def launch_parameters(N: int) -> dict[str, int]:
    """Block width and warps for rows of N: a function of the width alone, the same on every machine."""
    if N > WIDEST_IN_REGISTERS:
        return {"BLOCK_N": 8_192, "num_warps": 32}
    block = triton.next_power_of_2(N)
    # 32 values a thread: enough loads in flight, and few enough warps that their partial sums meet quickly.
    return {"BLOCK_N": block, "num_warps": max(block // 1_024, 1)}


def forward(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    rows = as_rows(x)
    M, N = rows.shape
    kernel = row_kernel if N <= WIDEST_IN_REGISTERS else wide_row_kernel
    weight, bias = as_columns(weight), as_columns(bias)
    launch(kernel, (M,), rows, weight, bias, y, rows.stride(0), N, eps, **launch_parameters(N))
    return y


layer_norm = register("layer_norm_triton", forward)
