"""Deliberately wrong softmaxes. The check must reject every one of them: they test the test.

Each is a mistake that people make. Those whose names begin with "gradient-" have the right output and a wrong gradient.
"""

from functools import partial

import torch

from kernels.ops.softmax import cuda, triton_forward
from kernels.ops.softmax.native import SIGNATURE, softmax
from kernels.wrong import edited, needs_order, variant


def no_largest(x):
    e = torch.exp(x.float())
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def strides_ignored(x):
    return softmax(x.as_strided(x.shape, torch.empty(x.shape).stride()))


def diagonal_alone(dy, y):
    return (dy * y.float() * (1 - y.float())).to(y.dtype)


wrong = partial(variant, SIGNATURE, __file__, forward=softmax)
ROWS = partial(triton_forward.run, triton_forward.by_rows)
MASKED = edited(ROWS, 'other=float("-inf")', "other=0.0")  # it can be the largest, and exp makes more than 0 of it
STALE_SUM = edited(cuda.online, "part.sum * e + 1", "part.sum + 1")
FIRST_PACK = edited(partial(cuda.in_registers, "softmax_few", softmax), "widened(row[k])", "widened(row[0])")
HALF_A_TREE = edited(cuda.block, "half > 0", "half > 1")
RACE = edited(cuda.block, "    __syncthreads();  // the next call", "    // the next call")
VARIANTS = (
    wrong(1, "no-largest", "subtracts nothing, so exp overflows", forward=no_largest),
    wrong(1, "other-dimension", "sums over the first dimension", forward=lambda x: torch.softmax(x, 0)),
    wrong(1, "masked-rows-zero", "gives 0, not NaN, for a row of -inf", forward=lambda x: softmax(x).nan_to_num()),
    wrong(1, "strides-ignored", "reads memory as if x were contiguous", forward=strides_ignored),
    wrong(1, "gradient-without-sum", "the gradient forgets the sum over the row", backward=lambda dy, y: dy * y),
    wrong(1, "gradient-diagonal", "the gradient of a sigmoid: y · (1 - y) · dy", backward=diagonal_alone),
    wrong(4, "masked-lanes", "lanes beyond the row hold 0", forward=MASKED),
    wrong(5, "stale-sum", "a larger value does not scale the sum so far", forward=STALE_SUM),
    wrong(5, "first-pack", "repeats the first pack of a thread", forward=FIRST_PACK),
    wrong(5, "half-a-tree", "ends the tree one step early", forward=HALF_A_TREE),
    wrong(
        5,
        "race",
        "writes what others still read: the end of the first tree",
        forward=RACE,
        unsupported=needs_order,
    ),
)
