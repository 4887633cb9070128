"""Level 4: dropout and a residual in Triton. Each program makes the random numbers of its elements, four by each counter."""

import triton
import triton.language as tl

from kernels.arguments import as_rows, empty_contiguous
from kernels.random import most_below
from kernels.rung import rung
from kernels.triton.launch import launch
from kernels.triton.tiles import elements_of

IN_32_BITS = 2**32  # so many elements have counters of 32 bits, the sign bit 0


@triton.jit
def put_dropped(
    x_ptr, residual_ptr, y_ptr, x_at, residual_at, y_at, seed, first, most, scale, inside, BLOCK_N: tl.constexpr
):  # fmt: skip
    """The elements at these offsets; all of them where `inside` is None. Their words, those of the counters from the first on,
    are made while the elements are on their way. `most`: the greatest word of what is dropped, folded as for a number."""
    x = tl.load(x_ptr + x_at, mask=inside)
    if residual_ptr is not None:
        residual = tl.load(residual_ptr + residual_at, mask=inside)
    one, two, three, four = tl.randint4x(seed, first + tl.arange(0, BLOCK_N // 4))
    words = tl.reshape(tl.join(tl.join(one, three), tl.join(two, four)), (BLOCK_N,)).to(tl.int32, bitcast=True)
    # The scale comes after the choice: before it, the compiler would round each element by itself.
    y = tl.where((words > most) | (words < ~most), x.to(tl.float32), 0.0) * scale
    if residual_ptr is not None:
        y += residual.to(tl.float32)
    tl.store(y_ptr + y_at, y, mask=inside)


# The seed differs from call to call: no kernel is compiled anew for 1 or for multiples of 16.
@triton.jit(do_not_specialize=["seed", "most"])
def residual_dropout_kernel(
    x_ptr, residual_ptr, y_ptr, x_stride, residual_stride, N, most, scale, seed, whole,
    WIDE: tl.constexpr, QUADS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """y = residual + dropout(x), or dropout(x) where there is no residual. WIDE: not all counters are of 32 bits. QUADS: every
    row starts with a new counter.

    whole: how many of the first blocks lie in memory without gaps and need no mask. A mask by an odd N would cost them their
    wide loads: the compiler can't tell that neighbours share its verdict.
    """
    blocks = tl.cdiv(N + 3, BLOCK_N)
    row, block = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks
    start = row * N + block.to(tl.int64) * BLOCK_N  # of all elements, by which the random numbers go
    before = tl.cast(0, tl.int64) if QUADS else start % 4
    first = (start - before) // 4
    if not WIDE:
        first = first.to(tl.int32)
    if tl.program_id(0) < whole:
        at = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
        put_dropped(x_ptr, residual_ptr, y_ptr, at, at, at, seed, first, most, scale, None, BLOCK_N)
    else:
        columns = block.to(tl.int64) * BLOCK_N - before + tl.arange(0, BLOCK_N)
        x_at, residual_at, y_at = row * x_stride + columns, row * residual_stride + columns, row * N + columns
        inside = (columns >= 0) & (columns < N)
        put_dropped(x_ptr, residual_ptr, y_ptr, x_at, residual_at, y_at, seed, first, most, scale, inside, BLOCK_N)


def fours(x, residual, p, seed):
    y = empty_contiguous(x)
    if not x.numel():
        return y
    given = [x] if residual is None else [x, residual]
    # What lies in memory as it is numbered is one row.
    shape = (1, -1) if all(tensor.is_contiguous() for tensor in given) else (-1, x.shape[-1])
    x, residual = (None if tensor is None else as_rows(tensor.reshape(shape)) for tensor in (x, residual))
    M, N = x.shape
    strides = x.stride(0), x.stride(0) if residual is None else residual.stride(0)
    block = elements_of(x.numel(), x.device)
    parameters = N, most_below(p), 1 / max(1 - p, 1e-30), seed, N // block if M == 1 else 0
    tile = {"WIDE": x.numel() > IN_32_BITS, "QUADS": M == 1 or N % 4 == 0, "BLOCK_N": block, "num_warps": 4}
    launch(residual_dropout_kernel, (M * triton.cdiv(N + 3, block),), x, residual, y, *strides, *parameters, **tile)
    return y


def fours_again(dy, p, seed):
    return fours(dy, None, p, seed)


FORWARD = (rung(4, "fours", fours, "four random numbers by each counter"),)
BACKWARD = (rung(4, "fours-again", fours_again, "the mask is made again"),)
