"""Deliberately wrong histograms, which the check must reject."""

from functools import partial

import torch

from kernels.ops.histogram import cuda, triton
from kernels.ops.histogram.native import SIGNATURE, histogram
from kernels.wrong import edited, needs_order, variant


def presence(x, bins):
    return histogram(x, bins).clamp(max=1)


def edges(x, bins):
    """By torch.histc over 0 … bins - 1, whose bins are then narrower than 1."""
    return torch.histc(x.float(), bins, 0, max(bins - 1, 1)).long()


def narrow_counts(x, bins):
    return histogram(x, bins).to(torch.uint8).long()


def padded(x, bins):
    return PADDED(x, bins) if x.numel() else histogram(x, bins)


wrong = partial(variant, SIGNATURE, __file__, forward=histogram)
PADDED = edited(triton.through_global, "mask=at < n, sem", "sem")  # these lanes are zeros
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
