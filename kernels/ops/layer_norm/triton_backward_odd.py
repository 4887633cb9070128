"""Level 4: layer norm in Triton, backward, for many rows, one behind the other, of an odd number of 2-byte values.

Triton would load such rows value by value, and none ahead: asynchronous copies have 4 bytes at least. Here a program loads the
vectors that its rows lie in. It steps over whole vectors from one of its rows to the next, so all of them start at the same
place within one, and its columns stay its own. Values of neighbouring rows count as zeros; vectors that are shared with them
are written value by value. The last row, behind which there may be no memory, is read value by value, too.
"""

import triton
import triton.language as tl

from kernels.arguments import empty_contiguous
from kernels.hardware import WARP
from kernels.machine import multiprocessors
from kernels.ops.layer_norm.native import Gradients
from kernels.triton.column_sums import Partials, store_partials
from kernels.triton.launch import launch
from kernels.triton.row_tiles import in_steps
from kernels.vectors import VECTOR_BYTES, in_line

VALUES, WARPS = 8, 16  # values of a thread, which leave registers for so many warps of a multiprocessor
STAGES = 4  # rows in flight
COLUMNS = range(257, 4_090)  # the vectors of the widest row have 4,096


@triton.jit
def row_gradient(dy, x, weight, inside, N, eps):
    """dx and the normalised row, whose lanes beyond the row hold 0."""
    mean = tl.div_rn(tl.sum(x), tl.cast(N, tl.float32))
    centred = tl.where(inside, x - mean, 0.0)
    share = 1.0 / N
    rstd = 1.0 / tl.sqrt(tl.sum(centred * centred) * share + eps)
    normalised, g = centred * rstd, dy * weight
    mean_g, mean_gn = tl.sum(g) * share, tl.sum(g * normalised) * share
    return rstd * (g - mean_g - normalised * mean_gn), normalised


@triton.jit
def layer_norm_backward_odd_kernel(
    dy_ptr, x_ptr, weight_ptr, dx_ptr, dweight_ptr, dbias_ptr, M, N, eps,
    SIZE: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    # SIZE values are a vector, and the number of programs is a multiple of it.
    program = tl.program_id(0)
    before = program * N % SIZE  # columns of the row before that are in the first vector of each row
    lanes = tl.arange(0, BLOCK_N)
    columns, vector_columns = lanes - before, lanes // SIZE * SIZE - before
    inside = (columns >= 0) & (columns < N)
    whole = (vector_columns >= 0) & (vector_columns + SIZE <= N)
    weight = 1.0
    if weight_ptr is not None:
        weight = tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    dweight, dbias = tl.zeros((BLOCK_N,), tl.float32), tl.zeros((BLOCK_N,), tl.float32)
    for row in tl.range(program, M - 1, tl.num_programs(0), num_stages=STAGES):
        places = in_steps(tl.cast(row, tl.int64) * N, SIZE) + lanes
        dy = tl.load(dy_ptr + places, mask=vector_columns < N, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + places, mask=vector_columns < N, other=0.0).to(tl.float32)
        dy, x = tl.where(inside, dy, 0.0), tl.where(inside, x, 0.0)
        dx, normalised = row_gradient(dy, x, weight, inside, N, eps)
        tl.store(dx_ptr + places, dx, mask=whole)
        tl.store(dx_ptr + places, dx, mask=inside & (whole == 0))
        dweight += dy * normalised
        dbias += dy
    if program == (M - 1) % tl.num_programs(0):
        places = tl.cast(M - 1, tl.int64) * N + columns
        dy = tl.load(dy_ptr + places, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + places, mask=inside, other=0.0).to(tl.float32)
        dx, normalised = row_gradient(dy, x, weight, inside, N, eps)
        tl.store(dx_ptr + places, dx, mask=inside)
        dweight += dy * normalised
        dbias += dy
    mine = tl.where(inside, columns, N)[None, :]  # from N on nothing is stored
    store_partials(dweight_ptr, dbias_ptr, dweight[None, :], dbias[None, :], program, mine, N)


def block_of(x) -> int:
    """The columns of all vectors that a row of x may lie in, as a power of two."""
    return triton.next_power_of_2(x.shape[1] + VECTOR_BYTES // x.itemsize - 1)


def warps_of(x) -> int:
    return block_of(x) // (WARP * VALUES)


def most_programs(x) -> int:
    return WARPS // warps_of(x) * multiprocessors(x.device)


def fits(dy, x) -> bool:
    """Whether these matrices' rows are such, the first at the start of a vector, and each program has two of them at least."""
    M, N = x.shape
    return in_line(dy, x) and x.itemsize == 2 and N % 2 == 1 and N in COLUMNS and 2 * most_programs(x) <= M


def odd(dy, x, weight, bias, eps) -> Gradients:
    """The gradients of matrices that it fits."""
    (M, N), size, dx = x.shape, VECTOR_BYTES // x.itemsize, empty_contiguous(x)
    programs = max(most_programs(x) // size * size, size)
    sums = Partials(programs, weight, bias)
    tile = {"SIZE": size, "BLOCK_N": block_of(x), "STAGES": STAGES, "num_warps": warps_of(x)}
    launch(layer_norm_backward_odd_kernel, (programs,), dy, x, weight, dx, sums.dweight, sums.dbias, M, N, eps, **tile)
    return dx, *sums.add_up()
