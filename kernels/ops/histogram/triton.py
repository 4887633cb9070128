"""Level 4: a histogram in Triton.

global     an atomic addition in global memory for each value.
private    a program counts many values in a tensor of its own, and adds that to the counts of all; of few it has all.
"""

import triton
import triton.language as tl

from kernels.machine import multiprocessors
from kernels.ops.histogram.native import SIGNATURE
from kernels.rung import rung
from kernels.triton.launch import ASSERTING, launch

MOST_PRIVATE = 2_048  # bins that a program has room for
BLOCK = 1_024
BLOCKS = 4  # that a program counts for one addition to the counts of all, where every multiprocessor has one
MOST_ALONE = 4_096  # values that one program counts: it stores what it has, and nobody need have made the counts zeros


@triton.jit
def histogram_zeros_kernel(counts_ptr, bins, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(counts_ptr + at, tl.zeros((BLOCK,), tl.int64), mask=at < bins)


@triton.jit
def histogram_global_kernel(x_ptr, counts_ptr, n, bins, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x_ptr + at, mask=at < n, other=0).to(tl.int64)
    tl.device_assert((values >= 0) & (values < bins), "x: expected 0 to bins - 1")
    tl.atomic_add(counts_ptr + values, tl.full((BLOCK,), 1, tl.int64), mask=at < n, sem="relaxed")


@triton.jit
def histogram_private_kernel(x_ptr, counts_ptr, n, bins, ALONE: tl.constexpr, BLOCK: tl.constexpr, BINS: tl.constexpr):
    lanes, each = tl.arange(0, BLOCK), tl.arange(0, BINS)
    counts = tl.zeros((BINS,), tl.int32)
    for start in range(tl.program_id(0).to(tl.int64) * BLOCK, n, tl.num_programs(0) * BLOCK):
        inside = start + lanes < n
        values = tl.load(x_ptr + start + lanes, mask=inside, other=0).to(tl.int64)
        tl.device_assert((values >= 0) & (values < bins), "x: expected 0 to bins - 1")
        counts += tl.histogram(values.to(tl.int32), BINS, mask=inside)
    if ALONE:
        tl.store(counts_ptr + each, counts, mask=each < bins)
    else:
        tl.atomic_add(counts_ptr + each, counts.to(tl.int64), mask=(each < bins) & (counts > 0), sem="relaxed")


def zeros(x, bins):
    counts = SIGNATURE.empty_outputs(x, bins)
    launch(histogram_zeros_kernel, (triton.cdiv(bins, BLOCK),), counts, bins, BLOCK=BLOCK)
    return counts


def through_global(x, bins):
    counts, n = zeros(x, bins), x.numel()
    if n:
        grid = (triton.cdiv(n, BLOCK),)
        launch(histogram_global_kernel, grid, x.contiguous(), counts, n, bins, BLOCK=BLOCK, **ASSERTING)
    return counts


def private(x, bins):
    if bins > MOST_PRIVATE or not x.numel():
        return through_global(x, bins)
    alone, n = x.numel() <= MOST_ALONE, x.numel()
    counts = SIGNATURE.empty_outputs(x, bins) if alone else zeros(x, bins)
    block = min(triton.next_power_of_2(n), MOST_ALONE) if alone else BLOCK
    together = multiprocessors(x.device)
    programs = min(triton.cdiv(n, block), max(triton.cdiv(n, BLOCKS * block), together), 8 * together)
    constants = {"ALONE": alone, "BLOCK": block, "BINS": max(triton.next_power_of_2(bins), 32)} | ASSERTING
    launch(histogram_private_kernel, (programs,), x.contiguous(), counts, n, bins, **constants)
    return counts


FORWARD = (
    rung(4, "global", through_global, "an atomic addition for each value"),
    rung(4, "private", private, "a program counts many values first"),
)
