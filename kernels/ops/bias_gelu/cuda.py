"""Level 5: the Python side of bias_gelu.cu."""

from functools import partial
from pathlib import Path

import torch

from kernels.activations import GELU, NAMES
from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.cuda.includes import DEVICE
from kernels.cuda.rows import COLUMN_SUMS, column_blocks_of_packs, column_sums, pack_size, power_of_2_from
from kernels.cuda.template import kernel
from kernels.operation import Variant
from kernels.unsupported import needs_compiler

FILE = Path(__file__).with_name("bias_gelu.cu")
THREADS = 256
ROWS = 4  # of a thread of the forward, as in bias_gelu.cu


def forward(x, bias, approximate, *, wide: bool):
    y = empty_contiguous(x)
    if y.numel():
        rows, bias = as_rows(x), as_columns(bias)
        M, N = rows.shape
        size = pack_size(N, rows, bias, y) if wide else 1
        width = min(power_of_2_from(N // size), THREADS)
        across, height = -(-N // (size * width)), THREADS // width
        launched = kernel(FILE, "bias_gelu_packs", x.dtype, size, NAMES.index(GELU[approximate]))
        blocks = across * -(-M // (ROWS * height))
        launched((blocks,), (width, height), (rows, bias, y, rows.stride(0), M, N, across))
    return y


def backward(dy, x, bias, approximate, *, wide: bool):
    """Deterministic on one kind of GPU: which rows a block adds up, and in which order, is fixed."""
    dx, dbias = empty_contiguous(x), empty_contiguous(bias)
    if not x.numel():
        return dx, dbias.zero_()
    dys, rows, bias = as_rows(dy), as_rows(x), as_columns(bias)
    M, N = rows.shape
    size = pack_size(N, dys, rows, bias, dx) if wide else 1
    (across, G), block = column_blocks_of_packs(M, N, size, x.device)
    sums = torch.empty((G, 1, N), dtype=torch.float32, device=x.device) if G > 1 else None
    launched = kernel(FILE, "bias_gelu_backward_packs", x.dtype, size, NAMES.index(GELU[approximate]))
    strides = dys.stride(0), rows.stride(0)
    launched((across, G), block, (dys, rows, bias, dx, sums, None if G > 1 else dbias, *strides, M, N))
    if sums is not None:
        column_sums(sums, dbias)
    return dx, dbias


SOURCE = (FILE, *(DEVICE / name for name in ("activations.cuh", "packs.cuh", "vectors.cuh")), Path(__file__))


def rungs(prefix: str, fn, source: tuple[Path, ...]) -> tuple[Variant, ...]:
    scalar, packs = partial(fn, wide=False), partial(fn, wide=True)
    return (
        Variant(5, f"{prefix}scalar", scalar, "a thread keeps a column and its bias", source, needs_compiler),
        Variant(5, f"{prefix}packs", packs, "16 bytes a load, or as many as the rows allow", source, needs_compiler),
    )


FORWARD, BACKWARD = rungs("", forward, SOURCE), rungs("backward-", backward, (*SOURCE, COLUMN_SUMS))
