"""Level 4: layer norm in Triton, forward, for few long rows, each divided among several programs.

    layer_norm_parts_kernel    of a part of a row: its mean, and its sum of squared deviations from that.
    layer_norm_split_kernel    a program joins the parts of its row, and normalises its own part of it.

The row is read twice, the second time from the cache.
"""

import torch
import triton
import triton.language as tl

from kernels.row_parts import columns_of_part, warps_of_part
from kernels.triton.launch import launch
from kernels.triton.row_parts import columns_of, joined_mean, part_mean
from kernels.triton.row_tiles import in_steps
from kernels.vectors import pack_size


@triton.jit
def layer_norm_parts_kernel(x_ptr, parts_ptr, row_stride, N, STEP: tl.constexpr, BLOCK_N: tl.constexpr):
    row_stride, N = in_steps(row_stride, STEP), in_steps(N, STEP)
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = part * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = columns < N
    x = tl.load(x_ptr + row * row_stride + columns, mask=inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
    mean = part_mean(x, columns_of(part, N, BLOCK_N))
    centred = tl.where(inside, x - mean, 0.0)
    parts_ptr += 2 * (row * tl.num_programs(1) + part)
    tl.store(parts_ptr, mean)
    tl.store(parts_ptr + 1, tl.sum(centred * centred))


@triton.jit
def layer_norm_split_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, parts_ptr, row_stride, N, eps,
    STEP: tl.constexpr, BLOCK_N: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    row_stride, N = in_steps(row_stride, STEP), in_steps(N, STEP)
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = columns < N
    # Asked for before the parts, so that neither waits for the other.
    x = tl.load(x_ptr + row * row_stride + columns, mask=inside, other=0.0, eviction_policy="evict_first").to(
        tl.float32
    )

    parts = tl.arange(0, PARTS)
    part_columns = columns_of(parts, N, BLOCK_N)
    parts_ptr += 2 * row * tl.num_programs(1)
    means = tl.load(parts_ptr + 2 * parts, mask=part_columns > 0, other=0.0)
    squares = tl.load(parts_ptr + 2 * parts + 1, mask=part_columns > 0, other=0.0)
    mean = joined_mean(means, tl.load(parts_ptr), part_columns, N)
    apart = tl.where(part_columns > 0, means - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(squares + part_columns * apart * apart) / N + eps)

    y = (x - mean) * rstd
    if weight_ptr is not None:
        y *= tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    if bias_ptr is not None:
        y += tl.load(bias_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * N + columns, y, mask=inside)


def by_parts(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, y: torch.Tensor, eps: float
) -> None:
    """y of a matrix x with at least one element, weight and bias with neighbouring columns."""
    M, N = x.shape
    columns = columns_of_part(M, N, x.device)
    parts, tile = triton.cdiv(N, columns), {"BLOCK_N": columns, "num_warps": warps_of_part(columns)}
    tile["STEP"] = pack_size(N, x, weight, bias, y)
    part_statistics = x.new_empty((M, parts, 2), dtype=torch.float32)
    launch(layer_norm_parts_kernel, (M, parts), x, part_statistics, x.stride(0), N, **tile)
    PARTS = triton.next_power_of_2(parts)
    arguments = (x, weight, bias, y, part_statistics, x.stride(0), N, eps)
    launch(layer_norm_split_kernel, (M, parts), *arguments, **tile, PARTS=PARTS)
