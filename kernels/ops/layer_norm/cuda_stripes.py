"""The backward of few rows by one launch, some of whose blocks have rows and others columns: layer_norm_backward_few.cu with
layer_norm_backward_stripe.cuh."""

from pathlib import Path

import numpy as np

from kernels.arguments import empty_contiguous
from kernels.cuda.few import ALONE, VALUES_OF_ROW, few_parameters
from kernels.cuda.rows import MOST_THREADS, power_of_2_from
from kernels.cuda.template import kernel
from kernels.hardware import WARP
from kernels.ops.layer_norm.native import Gradients
from kernels.vectors import pack_size

# Rows, and what every block that has columns reads: faster wherever it was timed; no other limits were
# (book/results/tried/clusters_and_stripes.json).
FEWEST, MOST_ELEMENTS = 8, 16_384
STRIPE = 32  # columns of a block
FEWEST_LANES, WANTED_VALUES, MOST_VALUES = 4, 8, 32  # threads of a row in such a block, and values of a thread


def stripe_parameters(M: int, N: int, size: int) -> tuple[int, int] | None:
    """STRIPE_PACKS and STRIPE_LANES of the kernel for M rows of N in packs of `size`; None where a block has no room."""
    lanes = min(max(power_of_2_from(-(-N // WANTED_VALUES)), FEWEST_LANES), WARP)
    while lanes > FEWEST_LANES and lanes * M > MOST_THREADS:
        lanes //= 2
    packs = -(-N // (size * lanes))
    return None if packs * size > MOST_VALUES or lanes * M > MOST_THREADS else (packs, lanes)


def striped(path: Path, dy, x, weight, bias, eps) -> Gradients | None:
    """The gradients of the matrices dy and x; None of those that are not for it."""
    M, N = x.shape
    if (weight is None and bias is None) or not FEWEST <= M or not 0 < M * N <= MOST_ELEMENTS:
        return None
    size = min(pack_size(N, dy, x, weight), VALUES_OF_ROW)
    found = stripe_parameters(M, N, size)
    soon_alone = M * N <= ALONE and few_parameters(N, size, M)[1][1] >= M  # one block, a row a thread
    if not found or soon_alone:
        return None
    (packs, _, lanes), (threads, together) = few_parameters(N, size, 1)
    rows = -(-M * found[1] // (threads * together)) * together  # whole warps, as many as a block of columns needs
    if threads * rows > MOST_THREADS:
        return None
    dx, (dweight, dbias) = empty_contiguous(x), (None if of is None else empty_contiguous(of) for of in (weight, bias))
    launched = kernel(path, path.stem, x.dtype, size, packs, 1, lanes, *found)
    arguments = (dy, x, weight, dx, dweight, dbias, None, dy.stride(0), x.stride(0), M, N, np.float32(eps))
    launched((-(-M // rows) + -(-N // STRIPE),), (threads, rows), arguments)
    return dx, dweight, dbias
