"""Triton kernels whose accesses are counted by hand in test_triton.py. Lines that tests name carry a comment."""

import kernels  # noqa: F401  # isort: skip  (it decides how Triton runs, before triton is imported)

import triton
import triton.language as tl

OFFSET = tl.constexpr(3)


@triton.jit
def copy_kernel(x_ptr, y_ptr, stride, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * stride, mask=i < N)  # copy loads
    tl.store(y_ptr + i, x, mask=i < N)  # copy stores


@triton.jit
def unmasked_kernel(x_ptr, y_ptr, first, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + first + i)  # unmasked loads
    tl.store(y_ptr + i, x)  # unmasked stores


@triton.jit
def shares_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    """Program p loads p + 1 blocks, and stores three times their sum."""
    program, i = tl.program_id(0), tl.arange(0, BLOCK)
    y = tl.zeros((BLOCK,), tl.float32)
    for turn in range(program + 1):
        y += tl.load(x_ptr + turn * BLOCK + i)
    tl.store(y_ptr + program * BLOCK + i, OFFSET * y)


@triton.jit
def transpose_kernel(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    rows = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None]
    columns = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))[None, :]
    inside = (rows < M) & (columns < N)
    x = tl.load(x_ptr + rows * N + columns, mask=inside)
    tl.store(y_ptr + columns * M + rows, x, mask=inside)


@triton.jit
def atomics_kernel(x_ptr, bins_ptr, total_ptr, lock_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.atomic_add(bins_ptr + x % 4, 1)  # bins
    tl.atomic_add(total_ptr, tl.sum(x), mask=tl.program_id(0) > 0)  # total
    tl.atomic_cas(lock_ptr, 0, 7)  # lock


@triton.jit
def block_pointer_kernel(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    x_block = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (tl.program_id(0) * BLOCK, 0), (BLOCK, BLOCK), (1, 0))
    y_block = tl.make_block_ptr(y_ptr, (M, N), (N, 1), (tl.program_id(0) * BLOCK, 0), (BLOCK, BLOCK), (1, 0))
    x = tl.load(x_block, boundary_check=(0, 1), padding_option="zero")
    tl.store(y_block, x, boundary_check=(0, 1))


@triton.jit
def descriptor_kernel(x, y_ptr, N, BLOCK: tl.constexpr):
    tile = x.load([tl.program_id(0) * BLOCK, 0])
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + (tl.program_id(0) * BLOCK + at)[:, None] * N + at[None, :], tile)


@triton.jit
def twice(x_ptr, i):
    return tl.load(x_ptr + i) + tl.load(x_ptr + i)  # twice


@triton.jit
def helper_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for _ in tl.range(0, tl.num_programs(0)):
        tl.store(y_ptr + i, twice(x_ptr, i) + OFFSET)


@triton.jit
def either_kernel(x_ptr, w_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    pointers = tl.where(i < 8, x_ptr + i, w_ptr + i)
    tl.store(y_ptr + i, tl.load(pointers))


@triton.jit
def wrong_shapes_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y_ptr + i, 1.0)
    x = tl.load(x_ptr + i) + tl.arange(0, 2 * BLOCK)  # wrong shapes
    tl.store(y_ptr + i, x)


@triton.jit
def endless_kernel(x_ptr, BLOCK: tl.constexpr):
    while tl.sum(tl.load(x_ptr + tl.arange(0, BLOCK))) < 1:
        pass
