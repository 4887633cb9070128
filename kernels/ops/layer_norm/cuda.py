"""Level 5: the Python side of layer_norm.cu and layer_norm_vector, _shared, _few and _narrow.cu, forward.

Rungs, plain to best:
    block     one block a row; sums by a tree in shared memory.
    warp      sums by shuffles within warps.
    vector    16-byte loads, the row kept in registers.
    reread    wide rows: 16-byte loads, the row kept in the cache and read again.

Each takes (x, weight, bias, eps) and gives y. The last two need rows of whole 16-byte vectors, up to 32 values for each of
1,024 threads. Other rows are kept in shared memory, which a row may enter at any place, and which a cluster of blocks may
share; those that do not fit there go to `warp`. On the last rung other rows have kernels of their own: of few, where all are on
the GPU at a time, weight and bias are asked for with the row; many narrow ones are copied as vectors, wherever a row ends in
one; and rows too wide for `reread` are divided among blocks that know nothing of each other (cuda_split.py).
"""

from pathlib import Path

import numpy as np
import torch

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.cuda import Kernel, RawModule
from kernels.cuda.includes import DEVICE, with_includes
from kernels.cuda.narrow import is_narrow, narrow_block
from kernels.cuda.rows import (
    MOST_THREADS,
    NARROW_THREADS,
    block_of_rows,
    one_block_a_row,
    threads_of_few,
    threads_of_row,
    vectors_of_thread,
)
from kernels.cuda.shared_rows import SHARED_ROWS, launch_shared_rows
from kernels.cuda.template import TYPES, kernel
from kernels.hardware import WARP
from kernels.operation import Variant
from kernels.ops.layer_norm import cuda_split
from kernels.ops.layer_norm.cuda_split import SPLIT, split
from kernels.row_parts import at_once, few_rows
from kernels.unsupported import needs_compiler
from kernels.vectors import VECTOR_BYTES, in_line, in_vectors, pack_size

SOURCE = Path(__file__).with_name("layer_norm.cu")
VECTOR_SOURCE, SHARED_SOURCE, FEW_SOURCE, NARROW_SOURCE = (
    Path(__file__).with_name(f"layer_norm_{name}.cu") for name in ("vector", "shared", "few", "narrow")
)
NAMES = {dtype: f"layer_norm_block<{name}>" for dtype, name in TYPES.items()}
MODULE = RawModule(path=SOURCE, options=("-std=c++17",), name_expressions=tuple(NAMES.values()))
KERNELS = {dtype: MODULE.get_function(name) for dtype, name in NAMES.items()}
WIDEST_IN_REGISTERS = 8_192  # columns up to which a multiprocessor's registers hold several rows at once
WIDEST_OF_FEW = 12_288  # and one row, with weight and bias
# Columns, by itemsize, of many rows that are no whole vectors: a row asks for all of them at once, as few rows do
# (book/results/tried/rows_asked_at_once.json and queues_and_few.json).
ODD_OF_FEW = {4: range(64, 2_049), 2: range(64, 961)}
MOST_OF_FEW = 512  # threads of one of few rows: sums of more warps meet later


def launch(
    kernels: dict[torch.dtype, Kernel],
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> torch.Tensor:
    """Launch the kernel of x's dtype with one block a row."""
    y = empty_contiguous(x)
    others = as_columns(weight), as_columns(bias), y
    one_block_a_row(kernels[x.dtype], (x,), others, np.float32(eps), floats=1)
    return y


def block(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    return launch(KERNELS, x, weight, bias, eps)


def warp(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    return launch({x.dtype: kernel(SOURCE, "layer_norm_warp", x.dtype)}, x, weight, bias, eps)


def shared(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    rows, y = as_rows(x), empty_contiguous(x)
    more = as_columns(weight), as_columns(bias), np.float32(eps)
    launched = launch_shared_rows(
        SHARED_SOURCE, "layer_norm_shared", y.view(rows.shape), rows, more=more, clusters=True
    )
    return y if launched else warp(x, weight, bias, eps)


def vector_parameters(N: int, itemsize: int) -> tuple[int, int, int, bool]:
    """VECTORS, THREADS, ROWS and FULL of the kernel `vector` for rows of N."""
    threads, rows = block_of_rows(threads_of_row(N), vectors_of_thread(N, 1, itemsize))
    vectors = vectors_of_thread(N, threads, itemsize)
    return vectors, threads, rows, vectors * threads * VECTOR_BYTES == N * itemsize


def vector(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    y = empty_contiguous(x)
    if not x.numel():
        return y
    rows, weight, bias = as_rows(x), as_columns(weight), as_columns(bias)
    M, N = rows.shape
    if threads_of_row(N) > MOST_THREADS or not in_vectors(N, rows, weight, bias):
        return shared(x, weight, bias, eps)
    parameters = _, threads, rows_of_block, _ = vector_parameters(N, x.itemsize)
    arguments = (rows, weight, bias, y, rows.stride(0), M, N, np.float32(eps))
    launched = kernel(VECTOR_SOURCE, "layer_norm_vector", x.dtype, *parameters)
    launched((-(-M // rows_of_block),), (threads, rows_of_block), arguments)
    return y


def few(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    """y of an x with at least one element."""
    y, rows, weight, bias = empty_contiguous(x), as_rows(x), as_columns(weight), as_columns(bias)
    M, N = rows.shape
    size = pack_size(N, rows, weight, bias, y)
    wanted = min(threads_of_few(N, size), MOST_OF_FEW)
    threads, height = block_of_rows(wanted, -(-N // size))
    if threads == WARP and not at_once(M, N, x.device):
        height = NARROW_THREADS // WARP
    parameters = size, -(-N // (size * threads)), threads, height, weight is not None, bias is not None
    launched = kernel(FEW_SOURCE, "layer_norm_few", x.dtype, *parameters)
    arguments = (rows, weight, bias, y, rows.stride(0), M, N, np.float32(eps))
    launched((-(-M // height),), (threads, height), arguments)
    return y


def narrow(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    """y of a contiguous matrix that starts at a multiple of 16 bytes, of at least one element."""
    (M, N), y = x.shape, torch.empty_like(x)
    _, threads, height = parameters = narrow_block(x)
    given = weight is not None, bias is not None
    launched = kernel(NARROW_SOURCE, NARROW_SOURCE.stem, x.dtype, *parameters, *given)
    arguments = (x, weight, bias, y, M, N, np.float32(eps))
    launched((-(-M // height),), (threads, height), arguments, shared_mem=height * N * x.itemsize)
    return y


def reread_parameters(N: int, itemsize: int) -> tuple[int, int, int, bool]:
    """VECTORS, THREADS, BLOCKS of a multiprocessor and FULL of the kernel `reread` for rows of N."""
    vectors, threads, _, full = vector_parameters(N, itemsize)
    # So few that their rows stay in the cache, or so many that rows of fewer bytes hide how long each takes
    # (book/results/tried/peeled_rows.json).
    blocks = 2 if itemsize == 4 else 4 if not full else 3 if threads <= 512 else 2
    return vectors, threads, min(blocks, 2_048 // threads), full


def reread(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    M, N = x.shape[:-1].numel(), x.shape[-1]
    if not x.numel():
        return vector(x, weight, bias, eps)
    if at_once(M, N, x.device) if N <= WIDEST_IN_REGISTERS else N <= WIDEST_OF_FEW and few_rows(M, x.device):
        return few(x, weight, bias, eps)
    rows, weight, bias = as_rows(x), as_columns(weight), as_columns(bias)
    whole = in_vectors(N, rows, weight, bias)
    if in_line(rows) and is_narrow(rows, whole):
        return narrow(rows, weight, bias, eps).view(x.shape)
    if N <= WIDEST_IN_REGISTERS:
        return (few if not whole and N in ODD_OF_FEW[x.itemsize] else vector)(x, weight, bias, eps)
    fits = whole and threads_of_row(N) <= MOST_THREADS
    if not fits:
        return (split if few_rows(M, x.device) else vector)(x, weight, bias, eps)
    y = empty_contiguous(x)
    parameters = _, threads, _, _ = reread_parameters(N, x.itemsize)
    launched = kernel(VECTOR_SOURCE, "layer_norm_reread", x.dtype, *parameters)
    launched((rows.shape[0],), (threads,), (rows, weight, bias, y, rows.stride(0), N, np.float32(eps)))
    return y


SCALAR = (SOURCE, Path(__file__))
VECTOR = (
    VECTOR_SOURCE,
    SHARED_SOURCE,
    SHARED_ROWS,
    DEVICE / "vectors.cuh",
    DEVICE / "reductions.cuh",
    Path(__file__),
)
FORWARD = (
    Variant(5, "block", block, "one block a row, sums by a tree in shared memory", SCALAR, needs_compiler),
    Variant(5, "warp", warp, "sums by shuffles within warps, shared memory only between them", SCALAR, needs_compiler),
    Variant(5, "vector", vector, "16-byte loads, the row kept in registers", VECTOR, needs_compiler),
    Variant(
        5,
        "reread",
        reread,
        "wide rows: the row kept in the cache and read again, several blocks a multiprocessor",
        (
            *VECTOR,
            *with_includes(SPLIT),
            *with_includes(FEW_SOURCE),
            *with_includes(NARROW_SOURCE),
            Path(cuda_split.__file__),
        ),
        needs_compiler,
    ),
)
