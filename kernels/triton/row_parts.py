"""Level 4: rows divided among several programs, as `kernels.row_parts` divides them.

A first kernel describes each part of a row by its mean and its sum of squared deviations, which a second one joins to those of
the row, always in the same order (Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance").
"""

import triton
import triton.language as tl


@triton.jit
def columns_of(parts, N, BLOCK_N: tl.constexpr):
    """How many columns of a row of N a part of it has; 0 for one beyond its end."""
    return tl.minimum(tl.maximum(N - parts * BLOCK_N, 0), BLOCK_N).to(tl.float32)


@triton.jit
def part_mean(x, columns):
    """The mean of a part, whose lanes beyond its columns hold 0. A plain / is approximate on a GPU."""
    return tl.div_rn(tl.sum(x), columns)


@triton.jit
def joined_mean(means, first, columns, N):
    """The mean of a row from those of its parts; `first`, that of the first part, if all are equal: then exactly.

    Where a part has no columns, its mean does not count.
    """
    apart = tl.where(columns > 0, means - first, 0.0)
    return first + tl.div_rn(tl.sum(columns * apart), tl.cast(N, tl.float32))
