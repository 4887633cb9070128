"""Level 4: layer norm in Triton, backward.

With normalised rows n_ij = (x_ij - mean_i) · rstd_i and g_ij = dy_ij · weight_j:

    dx_ij     = rstd_i · (g_ij - 1/N · sum_k g_ik - n_ij · 1/N · sum_k g_ik n_ik)
    dweight_j = sum_i dy_ij · n_ij
    dbias_j   = sum_i dy_ij

dx needs sums along rows, dweight and dbias need sums down columns. Rungs, plain to best:
    atomics     one program a row; it adds to dweight and dbias by atomic additions.
    partials    a few programs, each of which walks over many rows and keeps its sums of columns in registers; a second
                kernel adds up the programs.
    prefetch    the same, narrow rows several at a time, and the next rows are on their way while these are computed. A
                small matrix has one program: then its sums are all, and there is no second kernel.
Rows too wide for the registers go to triton_backward_wide.py on every rung, and on the last one many rows of an odd number of
2-byte values go to triton_backward_odd.py.
"""

from pathlib import Path

import torch
import triton
import triton.language as tl

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.hardware import REFERENCE_MULTIPROCESSORS
from kernels.machine import multiprocessors
from kernels.operation import Variant
from kernels.ops.layer_norm import triton_backward_odd
from kernels.ops.layer_norm.cases import too_many_atomics
from kernels.ops.layer_norm.native import Gradients
from kernels.ops.layer_norm.triton_backward_wide import wide
from kernels.triton import column_sums
from kernels.triton.column_sums import Partials, store_partials
from kernels.triton.launch import launch
from kernels.triton.row_tiles import in_steps
from kernels.unsupported import first_of, needs_interpreter
from kernels.vectors import pack_size

# x, dy and two sums, 16 values of each a thread, are what 512 threads have room for; half as many where rows do not start at
# multiples of 16 bytes, since every value is then loaded alone, and its address takes registers too.
WIDEST, WIDEST_UNALIGNED = 8_192, 4_096
NARROW = 256  # columns up to which a tile has many rows
# By what an H200 took (book/results/tried/few_rows.json):
WHOLE, SMALL = 8_192, 2_048  # elements that one program takes of up to four rows, or of more, as powers of two
FEW = REFERENCE_MULTIPROCESSORS  # rows that have a multiprocessor each


@triton.jit
def input_gradient(dy, x, weight, inside, N, eps):
    """dx and the normalised rows of a tile, whose lanes beyond the row hold 0."""
    mean = tl.div_rn(tl.sum(x, 1), tl.cast(N, tl.float32))[:, None]
    centred = tl.where(inside, x - mean, 0.0)
    rstd = (1.0 / tl.sqrt(tl.sum(centred * centred, 1) / N + eps))[:, None]
    normalised = centred * rstd
    g = dy * weight
    mean_g = (tl.sum(g, 1) / N)[:, None]
    mean_gn = (tl.sum(g * normalised, 1) / N)[:, None]
    # dx of a row of one column is 0, but a product fused into g - mean_g leaves its rounding there.
    scale = tl.where(N > 1, rstd, 0.0)
    return scale * (g - mean_g - normalised * mean_gn), normalised


@triton.jit
def layer_norm_backward_atomics_kernel(
    dy_ptr, x_ptr, weight_ptr, dx_ptr, dweight_ptr, dbias_ptr, dy_stride, x_stride, N, eps, BLOCK_N: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_N)[None, :]
    inside = columns < N
    dy = tl.load(dy_ptr + row * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + row * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
    weight = 1.0
    if weight_ptr is not None:
        weight = tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    dx, normalised = input_gradient(dy, x, weight, inside, N, eps)
    tl.store(dx_ptr + row * N + columns, dx, mask=inside)
    if dweight_ptr is not None:
        tl.atomic_add(dweight_ptr + columns, dy * normalised, mask=inside)
    if dbias_ptr is not None:
        tl.atomic_add(dbias_ptr + columns, dy, mask=inside)


@triton.jit
def layer_norm_backward_partials_kernel(
    dy_ptr,
    x_ptr,
    weight_ptr,
    dx_ptr,
    dweight_ptr,
    dbias_ptr,
    dy_stride,
    x_stride,
    M,
    N,
    eps,
    ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
):
    program = tl.program_id(0)
    columns = tl.arange(0, BLOCK_N)[None, :]
    weight = 1.0
    if weight_ptr is not None:
        weight = tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    dweight = tl.zeros((ROWS, BLOCK_N), tl.float32)
    dbias = tl.zeros((ROWS, BLOCK_N), tl.float32)
    for start in tl.range(program * ROWS, M, tl.num_programs(0) * ROWS, num_stages=STAGES):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        inside = (rows < M) & (columns < N)
        dy = tl.load(dy_ptr + rows * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + rows * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
        dx, normalised = input_gradient(dy, x, weight, inside, N, eps)
        tl.store(dx_ptr + rows * N + columns, dx, mask=inside)
        if dweight_ptr is not None:
            dweight += dy * normalised
        if dbias_ptr is not None:
            dbias += dy
    store_partials(dweight_ptr, dbias_ptr, dweight, dbias, program, columns, N)


@triton.jit
def layer_norm_backward_in_steps_kernel(
    dy_ptr, x_ptr, weight_ptr, dx_ptr, dweight_ptr, dbias_ptr, dy_stride, x_stride, M, N, eps,
    STEP: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    dy_stride, x_stride, N = in_steps(dy_stride, STEP), in_steps(x_stride, STEP), in_steps(N, STEP)
    layer_norm_backward_partials_kernel(
        dy_ptr, x_ptr, weight_ptr, dx_ptr, dweight_ptr, dbias_ptr, dy_stride, x_stride, M, N, eps, ROWS, BLOCK_N, STAGES
    )


def atomics(dy, x, weight, bias, eps) -> Gradients:
    """Not deterministic: the order in which programs add to dweight and dbias, and so their rounding, changes by chance."""
    if not x.numel():
        return no_elements(x, weight, bias)
    if too_wide(x.shape[-1]):
        return wide(dy, x, weight, bias, eps)
    dx = empty_contiguous(x)
    sums = [None if of is None else of.new_zeros(of.shape, dtype=torch.float32) for of in (weight, bias)]
    dy, rows, weight = as_rows(dy), as_rows(x), as_columns(weight)
    M, N = rows.shape
    strides = dy.stride(0), rows.stride(0)
    arguments = (dy, rows, weight, dx, *sums, *strides, N, eps)
    tile = {name: one_row(M, N)[name] for name in ("BLOCK_N", "num_warps")}
    launch(layer_norm_backward_atomics_kernel, (M,), *arguments, **tile)
    return dx, *(None if of is None else of.to(x.dtype) for of in sums)


def partials(dy, x, weight, bias, eps) -> Gradients:
    """Deterministic on one kind of GPU: which rows a program adds up, and in which order, is fixed."""
    return by_programs(dy, x, weight, bias, eps, best=False)


def prefetch(dy, x, weight, bias, eps) -> Gradients:
    """Deterministic on one kind of GPU, as `partials`."""
    return by_programs(dy, x, weight, bias, eps, best=True)


def by_programs(dy, x, weight, bias, eps, best: bool) -> Gradients:
    if not x.numel():
        return no_elements(x, weight, bias)
    dx, dy_rows, rows, columns = empty_contiguous(x), as_rows(dy), as_rows(x), as_columns(weight)
    M, N = rows.shape
    alone = best and whole(M, N)
    if too_wide(N) and not alone:
        return wide(dy, x, weight, bias, eps)
    if best and triton_backward_odd.fits(dy_rows, rows):
        dx, *sums = triton_backward_odd.odd(dy_rows, rows, columns, bias, eps)
        return dx.view(x.shape), *sums
    tile, kernel = one_row(M, N), layer_norm_backward_partials_kernel
    if best:  # which knows what is a multiple of which power of two, and so where vectors are
        tile, kernel = prefetch_parameters(M, N), layer_norm_backward_in_steps_kernel
        tile["STEP"] = pack_size(N, dy_rows, rows, columns, dx)
    programs = min(triton.cdiv(M, tile["ROWS"]), tile.pop("per_multiprocessor") * multiprocessors(x.device))
    sums = Partials(programs, weight, bias, alone)
    strides = dy_rows.stride(0), rows.stride(0)
    arguments = (dy_rows, rows, columns, dx, sums.dweight, sums.dbias, *strides, M, N, eps)
    launch(kernel, (programs,), *arguments, **tile)
    return dx, *sums.add_up()


def no_elements(x, weight, bias) -> Gradients:
    """The gradients where x has no element: sums of nothing."""
    return empty_contiguous(x), *(None if of is None else torch.zeros_like(of) for of in (weight, bias))


def too_wide(N: int) -> bool:
    return (WIDEST_UNALIGNED if N % 8 else WIDEST) < N


def whole(M: int, N: int) -> bool:
    """Whether one program takes M rows of N. Of many rows the sums of columns would keep its warps waiting for each other."""
    return triton.next_power_of_2(M) * triton.next_power_of_2(N) <= (WHOLE if M <= 4 else SMALL)


def one_row(M: int, N: int) -> dict[str, int]:
    """One row a tile, 16 values a thread; as many programs as have registers for that."""
    block = triton.next_power_of_2(N)
    warps = max(block // 512, 1)
    return {"ROWS": 1, "BLOCK_N": block, "num_warps": warps, "per_multiprocessor": 16 // warps, "STAGES": 1}


def prefetch_parameters(M: int, N: int) -> dict[str, int]:
    """All rows where one program takes them, and one of few. Else several narrow rows at a time, of the narrowest eight values
    a thread: more spill, for a thread then has parts of many rows' sums. Of others 32, or 16 where each is loaded alone. As
    many programs as have registers for that."""
    block, height = triton.next_power_of_2(N), triton.next_power_of_2(M)
    if whole(M, N):
        values = 32 if height == 4 and height * block > SMALL else 8  # few warps, which wait for each other less
        warps = min(max(height * block // (32 * values), 1), 16)
        return {"ROWS": height, "BLOCK_N": block, "num_warps": warps, "per_multiprocessor": 1, "STAGES": 1}
    if M <= FEW and block >= NARROW:
        warps = min(block // 256, 16)  # eight values a thread, where there are threads for that
        return {"ROWS": 1, "BLOCK_N": block, "num_warps": warps, "per_multiprocessor": 1, "STAGES": 1}
    if block <= NARROW:
        warps = 2 if N % 16 else 4  # Triton loads value by value unless N is a multiple of 16
        return {
            "ROWS": 256 * warps // block, "BLOCK_N": block, "num_warps": warps, "per_multiprocessor": 16 // warps, "STAGES": 4
        }  # fmt: skip
    rows = 1 if block > 1_024 else 2
    warps = max(rows * block // (512 if N % 8 else 1_024), 1)
    return {"ROWS": rows, "BLOCK_N": block, "num_warps": warps, "per_multiprocessor": 8 // warps, "STAGES": 4}


SOURCE = (Path(__file__), Path(__file__).with_name("triton_backward_wide.py"), Path(column_sums.__file__))
ODD = (*SOURCE, Path(triton_backward_odd.__file__))
BACKWARD = (
    Variant(
        4,
        "atomics",
        atomics,
        "one program a row; sums of columns by atomic additions",
        SOURCE,
        first_of(too_many_atomics, needs_interpreter),
        deterministic=False,
    ),
    Variant(
        4,
        "partials",
        partials,
        "each program adds up its rows alone; a second kernel joins them",
        SOURCE,
        needs_interpreter,
    ),
    Variant(4, "prefetch", prefetch, "the next rows on their way while these are computed", ODD, needs_interpreter),
)
