"""Deliberately wrong histograms, which the check must reject."""

from functools import partial

import torch
import triton
import triton.language as tl

from kernels.ops.histogram import cuda
from kernels.ops.histogram.native import SIGNATURE, histogram
from kernels.ops.histogram.triton import zeros
from kernels.triton.launch import launch
from kernels.wrong import edited, needs_order, variant


def presence(x, bins):
    return histogram(x, bins).clamp(max=1)


def edges(x, bins):
    """By torch.histc over 0 … bins - 1, whose bins are then narrower than 1."""
    return torch.histc(x.float(), bins, 0, max(bins - 1, 1)).long()


def narrow_counts(x, bins):
    return histogram(x, bins).to(torch.uint8).long()


@triton.jit
def padded_kernel(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x_ptr + at, mask=at < n, other=0).to(tl.int64)
    tl.atomic_add(
        counts_ptr + values, tl.full((BLOCK,), 1, tl.int64)
    )  # the lanes beyond the end are zeros, and are counted


def padded(x, bins):
    counts = zeros(x, bins)
    if n := x.numel():
        launch(padded_kernel, (triton.cdiv(n, 256),), x.contiguous(), counts, n, BLOCK=256)
    return counts


wrong = partial(variant, SIGNATURE, __file__, forward=histogram, backward=None)
LOST = edited(
    cuda.through_global,
    "atomicAdd(counts + value, 1ull);",
    "auto before = counts[value]; __syncwarp(__activemask()); counts[value] = before + 1;",  # a warp reads, then writes
)
FIRST_BINS = edited(
    cuda.private,
    "for (int bin = threadIdx.x; bin < bins; bin += blockDim.x)\n        if",
    "for (int bin = threadIdx.x; bin < min(bins, 32); bin += blockDim.x)\n        if",
)
UNCLEARED = edited(
    cuda.private, "__syncthreads();\n    for (int bin", "if (threadIdx.x < 224) __syncwarp();\n    for (int bin"
)
VARIANTS = (
    wrong(1, "presence", "says whether a value comes, not how often", forward=presence),
    wrong(1, "histc-edges", "divides 0 to bins - 1 into so many bins", forward=edges),
    wrong(1, "narrow-counts", "counts in 8 bits", forward=narrow_counts),
    wrong(4, "counted-padding", "counts the lanes beyond the end", forward=padded),
    wrong(5, "lost-updates", "adds without an atomic", forward=LOST, unsupported=needs_order),
    wrong(5, "first-bins", "one warp adds the private counts, once", forward=FIRST_BINS),
    wrong(5, "no-barrier", "adds what not all have counted yet", forward=UNCLEARED, unsupported=needs_order),
)
