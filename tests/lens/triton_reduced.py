"""Reductions by functions of the kernel's own."""

import kernels  # noqa: F401  # isort: skip  (it decides how Triton runs, before triton is imported)

import triton
import triton.language as tl


@triton.jit
def added(a, b):
    return a + b


@triton.jit
def first_larger(a, i, b, j):
    takes = (b > a) | ((b == a) & (j < i))
    return tl.where(takes, b, a), tl.where(takes, j, i)


@triton.jit
def larger_by_an_if(a, b):
    if a > b:
        return a
    return b


@triton.jit
def after(a, b, c, d):
    """x · a + b, and then · c + d."""
    return a * c, b * c + d


@triton.jit
def reduced_kernel(x_ptr, sums_ptr, place_ptr, maps_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    rows = tl.reshape(x, (4, BLOCK // 4))
    tl.store(sums_ptr + tl.arange(0, 4), tl.reduce(rows, 1, added))
    tl.store(sums_ptr + 4 + tl.arange(0, 4)[:, None], tl.reduce(rows, 1, added, keep_dims=True))
    tl.store(sums_ptr + 8, tl.reduce(rows, None, added))
    largest, place = tl.reduce((x, i), 0, first_larger)
    tl.store(sums_ptr + 9, largest)
    tl.store(sums_ptr + 10, tl.reduce(x, 0, larger_by_an_if))
    tl.store(place_ptr, place)
    a, b = tl.reduce((x, x), 0, after)
    tl.store(maps_ptr, a)
    tl.store(maps_ptr + 1, b)


@triton.jit
def total_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    tl.store(y_ptr, tl.reduce(tl.load(x_ptr + tl.arange(0, BLOCK)), 0, added))
