"""Triton kernels whose programs get in each other's way, and the same kernels fixed. Lines that tests name carry a comment."""

import kernels  # noqa: F401  # isort: skip  (it decides how Triton runs, before triton is imported)

import triton
import triton.language as tl


@triton.jit
def one_row_for_all(x_ptr, sums_ptr, turns_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + i)
    so_far = tl.load(sums_ptr + i)  # bug: race
    tl.store(sums_ptr + i, so_far + x)  # bug: race


@triton.jit
def one_row_for_all_by_atomics(x_ptr, sums_ptr, turns_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(sums_ptr + i, tl.load(x_ptr + tl.program_id(0) * BLOCK + i), sem="relaxed")


@triton.jit
def one_row_for_all_in_turn(x_ptr, sums_ptr, turns_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + i)
    while tl.atomic_cas(turns_ptr, 0, 1) == 1:
        pass
    tl.store(sums_ptr + i, tl.load(sums_ptr + i) + x)
    tl.atomic_xchg(turns_ptr, 0)


@triton.jit
def a_lock_of_no_use(x_ptr, sums_ptr, turns_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + i)
    tl.atomic_cas(turns_ptr, 0, 1, sem="relaxed")
    tl.store(sums_ptr + i, tl.load(sums_ptr + i) + x)  # bug: race
    tl.atomic_xchg(turns_ptr, 0, sem="relaxed")


@triton.jit
def the_last_adds(x_ptr, sums_ptr, turns_ptr, BLOCK: tl.constexpr):
    """Whether it is the last to come is asked of its number, not of who has come."""
    program, i = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(sums_ptr + program * BLOCK + i, tl.load(x_ptr + program * BLOCK + i))  # bug: race
    if program == tl.num_programs(0) - 1:
        for turn in range(tl.num_programs(0)):
            tl.store(x_ptr + i, tl.load(sums_ptr + turn * BLOCK + i))  # bug: race


@triton.jit
def the_last_to_come_adds(x_ptr, sums_ptr, turns_ptr, BLOCK: tl.constexpr):
    program, i = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(sums_ptr + program * BLOCK + i, tl.load(x_ptr + program * BLOCK + i))
    if tl.atomic_add(turns_ptr, 1) == tl.num_programs(0) - 1:
        for turn in range(tl.num_programs(0)):
            tl.store(x_ptr + i, tl.load(sums_ptr + turn * BLOCK + i))


@triton.jit
def smoothed_in_place(x_ptr, sums_ptr, turns_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i) + tl.load(x_ptr + i + 1, mask=i + 1 < tl.num_programs(0) * BLOCK, other=0)  # bug: race
    tl.store(x_ptr + i, x)  # bug: race


@triton.jit
def smoothed(x_ptr, sums_ptr, turns_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i) + tl.load(x_ptr + i + 1, mask=i + 1 < tl.num_programs(0) * BLOCK, other=0)
    tl.store(sums_ptr + i, x)


@triton.jit
def doubled_in_place(x_ptr, sums_ptr, turns_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i))
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i))


@triton.jit
def the_same_from_all(x_ptr, sums_ptr, turns_ptr, BLOCK: tl.constexpr):
    tl.store(sums_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + tl.arange(0, BLOCK)))


@triton.jit
def another_from_each(x_ptr, sums_ptr, turns_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.store(sums_ptr + tl.arange(0, BLOCK), x)  # bug: race


@triton.jit
def counted_without_an_atomic(x_ptr, sums_ptr, turns_ptr, BLOCK: tl.constexpr):
    tl.atomic_add(turns_ptr, 1, sem="relaxed")  # bug: race
    if tl.program_id(0) == 2:
        tl.store(turns_ptr, 0)  # bug: race
