"""Level 4: RMS norm in Triton, forward, for few long rows, each divided among several programs; or that of x + residual, with
that sum, h, as an output.

The same kernel runs twice: it writes the sum of squares of each part of a row, and h, then it joins those sums and normalises.
The row is read twice, the second time from the cache.
"""

import torch
import triton
import triton.language as tl

from kernels.triton.launch import launch

PART = {"BLOCK_N": 4_096, "num_warps": 8}


@triton.jit
def rms_norm_parts_kernel(
    x_ptr, residual_ptr, weight_ptr, h_ptr, y_ptr, squares_ptr, x_stride, residual_stride, N, eps,
    SLOTS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """squares: M×S, the sum of x² over each of the S parts of a row. They are written where there is no y, else read."""
    part, row = tl.program_id(0), tl.program_id(1).to(tl.int64)
    columns = part * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = columns < N
    x = tl.load(x_ptr + row * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
    if residual_ptr is not None:
        x += tl.load(residual_ptr + row * residual_stride + columns, mask=inside, other=0.0).to(tl.float32)
    squares_ptr += row * tl.num_programs(0)
    if y_ptr is None:
        if h_ptr is not None:
            tl.store(h_ptr + row * N + columns, x, mask=inside)
        tl.store(squares_ptr + part, tl.sum(x * x))
    else:
        slots = tl.arange(0, SLOTS)
        squares = tl.sum(tl.load(squares_ptr + slots, mask=slots < tl.num_programs(0), other=0.0))
        y = x * (1.0 / tl.sqrt(tl.div_rn(squares, tl.cast(N, tl.float32)) + eps))
        if weight_ptr is not None:
            y *= tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * N + columns, y, mask=inside)


def by_parts(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    h: torch.Tensor | None,
    y: torch.Tensor,
    eps: float,
) -> None:
    """y, and h where there is a residual, of matrices with at least one element."""
    M, N = x.shape
    S = triton.cdiv(N, PART["BLOCK_N"])
    squares = torch.empty((M, S), dtype=torch.float32, device=x.device)
    tile = {"SLOTS": triton.next_power_of_2(S)} | PART

    def parts(x, residual, weight, h, y):
        strides = x.stride(0), 0 if residual is None else residual.stride(0)
        launch(rms_norm_parts_kernel, (S, M), x, residual, weight, h, y, squares, *strides, N, eps, **tile)

    parts(x, residual, None, h, None)
    # Added again where the h in memory has been rounded.
    exact = h is not None and h.dtype == torch.float32
    parts(h if exact else x, None if exact else residual, weight, None, y)
