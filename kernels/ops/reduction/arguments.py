"""What the launches of levels 4 and 5 go by: the matrix that is reduced, and the outputs."""

from kernels.arguments import as_rows
from kernels.ops.reduction.native import SIGNATURE


def matrix(x, dim):
    """x as M×N with neighbouring columns: over which it is reduced, or down which."""
    return as_rows(x.reshape(x.shape[0], -1) if dim == 0 else x)


def sizes(x, dim):
    """M and N of that matrix, of an x with elements."""
    return (x.shape[0], x.numel() // x.shape[0]) if dim == 0 else (x.numel() // x.shape[-1], x.shape[-1])


def outputs(x, kind, dim):
    """Memory for y and index, and whether a kernel has to fill it: the sum of nothing, and its mean, need none."""
    y, index = SIGNATURE.empty_outputs(x, kind, dim)
    if y.numel() and not x.numel():
        y.fill_(0.0 if kind == "sum" else float("nan"))
    return y, index, x.numel() > 0


def factor(kind, count):
    """By which sums of so many are multiplied."""
    return 1 / count if kind == "mean" else 1.0
