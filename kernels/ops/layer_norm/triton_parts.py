"""Level 4: layer norm in Triton, forward, for few wide rows: one program a part of a row, so that all multiprocessors work.

A first launch writes the mean and the squared deviations of each part; a second joins those of a row (Chan, Golub and LeVeque
1983) and normalises. Between the two the rows stay in the cache.
"""

import torch
import triton
import triton.language as tl

from kernels.triton.launch import launch

PART = {"BLOCK_N": 4_096, "num_warps": 8}


@triton.jit
def layer_norm_parts_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, parts_ptr, row_stride, N, eps, SLOTS: tl.constexpr, BLOCK_N: tl.constexpr
):
    """parts: M×S×2, the mean and the sum of (x - mean)² of each of the S parts of a row. They are written where there is no y,
    else read."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = part * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = columns < N
    x = tl.load(x_ptr + row * row_stride + columns, mask=inside, other=0.0).to(tl.float32)
    parts_ptr += row * tl.num_programs(1) * 2
    if y_ptr is None:
        mean = tl.div_rn(tl.sum(x), tl.minimum(N - part * BLOCK_N, BLOCK_N).to(tl.float32))
        centred = tl.where(inside, x - mean, 0.0)
        tl.store(parts_ptr + part * 2, mean)
        tl.store(parts_ptr + part * 2 + 1, tl.sum(centred * centred))
    else:
        slots = tl.arange(0, SLOTS)
        known = slots < tl.num_programs(1)
        count = tl.where(known, tl.minimum(N - slots * BLOCK_N, BLOCK_N), 0).to(tl.float32)
        mean_of = tl.load(parts_ptr + slots * 2, mask=known, other=0.0)
        squares_of = tl.load(parts_ptr + slots * 2 + 1, mask=known, other=0.0)
        mean = tl.div_rn(tl.sum(count * mean_of), tl.cast(N, tl.float32))
        apart = tl.where(known, mean_of - mean, 0.0)
        variance = tl.sum(squares_of + count * apart * apart) / N
        y = (x - mean) / tl.sqrt(variance + eps)
        if weight_ptr is not None:
            y *= tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        if bias_ptr is not None:
            y += tl.load(bias_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * N + columns, y, mask=inside)


def by_parts(x, weight, bias, y, eps) -> None:
    M, N = x.shape
    S = triton.cdiv(N, PART["BLOCK_N"])
    parts = torch.empty((M, S, 2), dtype=torch.float32, device=x.device)
    for out in (None, y):
        tile = {"SLOTS": triton.next_power_of_2(S)} | PART
        launch(layer_norm_parts_kernel, (M, S), x, weight, bias, out, parts, x.stride(0), N, eps, **tile)
