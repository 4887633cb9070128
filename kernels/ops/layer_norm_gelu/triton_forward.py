"""Level 4: layer norm and GELU in Triton, forward: what layer norm alone has to write, and GELU to read, stays in registers.

Rungs, plain to best:
    passes    one program a row, which reads it three times: for the mean, for the variance, for the result.
    rows      the row is read once and kept in registers, narrow rows several at a time.
Rows too wide for `rows` go to `passes`.
"""

from functools import partial
from pathlib import Path

import torch
import triton
import triton.language as tl

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.operation import Variant
from kernels.row_parts import at_once
from kernels.triton import activations, row_tiles
from kernels.triton.activations import activated
from kernels.triton.launch import launch
from kernels.triton.row_tiles import in_steps, row_tile
from kernels.unsupported import needs_interpreter
from kernels.vectors import pack_size

WIDEST_KEPT = 1_024  # beyond it a row that is kept has taken longer than one that is read again
WIDEST_OF_FEW = 8_192  # unless all rows are there at once; wider ones spill


@triton.jit
def layer_norm_gelu_passes_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, x_stride, N: tl.constexpr, eps,
    EXACT: tl.constexpr, STEP: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    # N is known to the compiler, which can then unroll the loops and have the loads of several blocks on their way.
    row, lanes = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK_N)
    x_ptr += row * in_steps(x_stride, STEP)
    total = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        inside = start + lanes < N
        total += tl.load(x_ptr + start + lanes, mask=inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
    mean = tl.div_rn(tl.sum(total), tl.cast(N, tl.float32))
    squares = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        inside = start + lanes < N
        x = tl.load(x_ptr + start + lanes, mask=inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
        centred = tl.where(inside, x - mean, 0.0)
        squares += centred * centred
    rstd = 1.0 / tl.sqrt(tl.sum(squares) / N + eps)
    for start in range(0, N, BLOCK_N):
        columns, inside = start + lanes, start + lanes < N
        x = tl.load(x_ptr + columns, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
        weight = tl.load(weight_ptr + columns, mask=inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
        bias = tl.load(bias_ptr + columns, mask=inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
        value, _ = activated((x - mean) * rstd * weight + bias, "gelu", EXACT)
        tl.store(y_ptr + row * N + columns, value, mask=inside, cache_modifier=".cs")


@triton.jit
def layer_norm_gelu_rows_kernel(
    x_ptr, weight_ptr, bias_ptr, y_ptr, x_stride, M, N, eps,
    EXACT: tl.constexpr, STEP: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    x_stride, N = in_steps(x_stride, STEP), in_steps(N, STEP)
    rows = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    columns = tl.arange(0, BLOCK_N)[None, :]
    inside = (rows < M) & (columns < N)
    x = tl.load(x_ptr + rows * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
    # Not where they are needed: no compiler moves a load across the barriers of a sum.
    weight = tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    mean = tl.div_rn(tl.sum(x, 1), tl.cast(N, tl.float32))[:, None]
    centred = tl.where(inside, x - mean, 0.0)
    rstd = (1.0 / tl.sqrt(tl.sum(centred * centred, 1) / N + eps))[:, None]
    value, _ = activated(centred * rstd * weight + bias, "gelu", EXACT)
    tl.store(y_ptr + rows * N + columns, value, mask=inside)


def by_passes(x, weight, bias, y, eps) -> None:
    M, N = x.shape
    width = triton.next_power_of_2(N)
    tile = {"BLOCK_N": min(width, 8_192), "num_warps": min(max(width // 1_024, 1), 32)}
    tile |= {"EXACT": y.dtype == torch.float32, "STEP": pack_size(N, x, weight, bias, y)}
    launch(layer_norm_gelu_passes_kernel, (M,), x, weight, bias, y, x.stride(0), N, eps, **tile)


def by_rows(x, weight, bias, y, eps) -> None:
    M, N = x.shape
    if (WIDEST_OF_FEW if at_once(M, N, x.device) else WIDEST_KEPT) < N:
        return by_passes(x, weight, bias, y, eps)
    tile = row_tile(M, N, x.device) | {"EXACT": y.dtype == torch.float32, "STEP": pack_size(N, x, weight, bias, y)}
    arguments = (x, weight, bias, y, x.stride(0), M, N, eps)
    launch(layer_norm_gelu_rows_kernel, (triton.cdiv(M, tile["ROWS"]),), *arguments, **tile)


def run(by, x, weight, bias, eps) -> torch.Tensor:
    y = empty_contiguous(x)
    if y.numel():
        by(as_rows(x), as_columns(weight), as_columns(bias), y, eps)
    return y


SOURCE = (Path(__file__), Path(activations.__file__), Path(row_tiles.__file__))


def rung(name: str, idea: str, by) -> Variant:
    return Variant(4, name, partial(run, by), idea, SOURCE, needs_interpreter)


FORWARD = (
    rung("passes", "one program a row, which reads it three times", by_passes),
    rung("rows", "read once, kept in registers, narrow rows several at a time", by_rows),
)
