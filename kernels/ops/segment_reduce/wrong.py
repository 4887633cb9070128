"""Deliberately wrong sums of segments, which the check must reject. "gradient-…" have right outputs."""

from functools import partial

import torch

from kernels.ops.segment_reduce import cuda
from kernels.ops.segment_reduce.native import SIGNATURE, segment_reduce, segment_reduce_backward
from kernels.wrong import edited, variant


def with_the_next_row(x, offsets, mean):
    """Ends belong to the segment."""
    y = segment_reduce(x, offsets, mean)
    follows = (offsets[1:] < len(x)).nonzero()[:, 0]
    return y.index_add(0, follows, x[offsets[1:][follows]])


def narrow_sums(x, offsets, mean):
    """Adds up in the dtype of x, row by row."""
    y = x.new_zeros((len(offsets) - 1, x.shape[1]))
    for s in range(len(y)):
        for row in x[offsets[s] : offsets[s + 1]]:
            y[s] = (y[s] + row).bfloat16()
    return y


def never_divided(x, offsets, mean):
    return segment_reduce(x, offsets, False)


def divided_by_all(dy, x, offsets, mean):
    dx = segment_reduce_backward(dy, x, offsets, False)
    return dx / max(len(offsets) - 1, 1) if mean else dx


def previous_segment(dy, x, offsets, mean):
    return segment_reduce_backward(dy.roll(1, 0), x, offsets, mean)


def first_row_alone(dy, x, offsets, mean):
    dx = segment_reduce_backward(dy, x, offsets, mean)
    first = torch.zeros(len(x) + 1, dtype=torch.bool, device=x.device).index_fill(0, offsets, True)[:-1]
    return dx * first[:, None]


wrong = partial(variant, SIGNATURE, __file__, forward=segment_reduce)
FIRST_LANES = edited(cuda.warp, "sum.at[i] += __shfl_xor_sync(0xffffffff, sum.at[i], apart);", "continue;")
LEFT_AT_ENDS = edited(cuda.parts, "sum_of_rows<1>(partial + D, 2LL * D, (offsets[s] + s) / part, p, at, D)", "{}")
WRONG_SLOT = edited(cuda.parts, "s < last && offsets[s] >= t)", "s < last && offsets[s] > t)")
PART_ALONE = edited(cuda.backward, "start < many; start", "start < part / 2; start")
VARIANTS = (
    wrong(1, "next-row", "counts the row at a segment's end to it", forward=with_the_next_row),
    wrong(1, "narrow-sums", "rounds the sum to bfloat16 at every row", forward=narrow_sums),
    wrong(1, "never-divided", "a mean is a sum", forward=never_divided),
    wrong(5, "first-lanes", "leaves out the rows of a warp's other lanes", forward=FIRST_LANES),
    wrong(5, "left-at-ends", "forgets what parts before have of a segment", forward=LEFT_AT_ENDS),
    wrong(5, "wrong-slot", "takes a segment that begins with a part for one from before it", forward=WRONG_SLOT),
    wrong(1, "gradient-divided-by-all", "divides by the number of segments", backward=divided_by_all),
    wrong(1, "gradient-of-before", "rows have the gradient of the segment before", backward=previous_segment),
    wrong(1, "gradient-first-row", "the first row of a segment alone has a gradient", backward=first_row_alone),
    wrong(5, "gradient-half-parts", "writes the first half of each part", backward=PART_ALONE),
)
