"""Level 5: the Python side of softmax.cu, softmax_vector.cu and softmax_few.cu.

Rungs of the forward, plain to best:
    block      one block a row, three passes; the largest value and the sum by trees in shared memory.
    online     both in one pass, joined by shuffles.
    vector     16-byte copies into shared memory, where the row stays.
    cluster    wide rows: shared by the blocks of a cluster.
Rungs of the backward: backward-warp, with sums by shuffles, then backward-vector and backward-cluster.

The last two need matrices whose rows start equally far from a multiple of 16 bytes, as those with the same strides do, and
clusters a GPU of sm_90 or newer. Other rows go to `online` and `backward-warp`. On the last rung few rows have kernels of their
own: where all are on the GPU at a time, and none is wide enough for a cluster, they stay in registers.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from kernels.arguments import as_rows, empty_contiguous
from kernels.cuda import Kernel
from kernels.cuda.includes import DEVICE
from kernels.cuda.rows import block_of_rows, one_block_a_row, threads_of_few
from kernels.cuda.shared_rows import SHARED_ROWS, WIDEST_OF_BLOCK, few_wide_rows, launch_shared_rows
from kernels.cuda.template import kernel
from kernels.hardware import WARP
from kernels.machine import Machine
from kernels.operation import Case, Variant
from kernels.row_parts import at_once
from kernels.unsupported import Reason, needs_compiler, needs_feature
from kernels.vectors import VECTOR_BYTES, pack_size

SCALAR, VECTOR, FEW = (Path(__file__).with_name(f"softmax{name}.cu") for name in ("", "_vector", "_few"))
WIDEST_OF_WARP = 256  # columns of one of few rows that a warp has alone: no warp waits for another


def by_blocks(find: Callable[[torch.dtype], Kernel], *given: torch.Tensor) -> torch.Tensor:
    """The output of a kernel of softmax.cu: one block a row."""
    out = empty_contiguous(given[-1])
    one_block_a_row(find(out.dtype), given, (out,), floats=1)  # for trees
    return out


def by_vectors(name: str, otherwise: Callable, *given: torch.Tensor, clusters: bool = False) -> torch.Tensor:
    """The output of a kernel of softmax_vector.cu, or of another function where the rows do not fit."""
    out = empty_contiguous(given[-1])
    if not out.numel():
        return out
    rows = [as_rows(tensor) for tensor in given]
    if launch_shared_rows(VECTOR, name, out.view(rows[0].shape), *rows, clusters=clusters):
        return out
    return otherwise(*given)


def in_registers(name: str, otherwise: Callable, *given: torch.Tensor) -> torch.Tensor:
    """The output of a kernel of softmax_few.cu, or of another function where there are more rows, or few wide ones."""
    rows = [as_rows(tensor) for tensor in given]
    M, N = rows[0].shape
    if not rows[0].numel() or not at_once(M, N, rows[0].device) or few_wide_rows(rows[0]):
        return otherwise(*given)
    out = empty_contiguous(given[-1])
    size = pack_size(N, *rows, out)
    threads, height = block_of_rows(WARP if N <= WIDEST_OF_WARP else threads_of_few(N, size), -(-N // size))
    launched = kernel(FEW, name, out.dtype, size, -(-N // (size * threads)), threads, height)
    launched((-(-M // height),), (threads, height), (*rows, out, *(matrix.stride(0) for matrix in rows), M, N))
    return out


def cluster_unsupported(case: Case, machine: Machine) -> str | None:
    widest = WIDEST_OF_BLOCK * VECTOR_BYTES // getattr(torch, case.dtype).itemsize
    return (needs_feature("clusters") if case.shape[-1] > widest else needs_compiler)(case, machine)


def rung(name: str, fn: Callable, idea: str, *source: Path, unsupported: Reason = needs_compiler) -> Variant:
    files = *source, DEVICE / "parts.cuh", SHARED_ROWS, DEVICE / "reductions.cuh", Path(__file__)
    return Variant(5, name, fn, idea, files, unsupported)


block, online, warp = (
    partial(by_blocks, partial(kernel, SCALAR, name))
    for name in ("softmax_block", "softmax_online", "softmax_backward_warp")
)
vector = partial(by_vectors, "softmax_vector", online)
vector_backward = partial(by_vectors, "softmax_backward_vector", warp)
cluster = partial(in_registers, "softmax_few", partial(vector, clusters=True))
cluster_backward = partial(in_registers, "softmax_backward_few", partial(vector_backward, clusters=True))
CLUSTER = VECTOR, FEW, DEVICE / "packs.cuh", DEVICE / "vectors.cuh"
FORWARD = (
    rung("block", block, "one block a row, three passes, trees in shared memory", SCALAR),
    rung("online", online, "largest value and sum in one pass, joined by shuffles", SCALAR),
    rung("vector", vector, "16-byte copies into shared memory, where the row stays", VECTOR),
    rung("cluster", cluster, "wide rows: shared by a cluster of blocks", *CLUSTER, unsupported=cluster_unsupported),
)
BACKWARD = (
    rung("backward-warp", warp, "one block a row, two passes, the sum by shuffles", SCALAR),
    rung("backward-vector", vector_backward, "16-byte copies into shared memory, where both rows stay", VECTOR),
    rung(
        "backward-cluster",
        cluster_backward,
        "wide rows: shared by a cluster of blocks",
        *CLUSTER,
        unsupported=cluster_unsupported,
    ),
)
