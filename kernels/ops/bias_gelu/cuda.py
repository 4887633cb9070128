"""Level 5: the Python side of bias_gelu.cu."""

import math
from functools import partial
from pathlib import Path

import torch

from kernels.activations import GELU, NAMES
from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.cuda.includes import DEVICE
from kernels.cuda.rows import COLUMN_SUMS, FEW_ROWS, column_blocks_of_packs, column_sums, power_of_2_from
from kernels.cuda.template import kernel
from kernels.hardware import LAUNCH_GRID
from kernels.machine import elements_of_thread
from kernels.operation import Variant
from kernels.row_parts import at_once
from kernels.unsupported import needs_compiler
from kernels.vectors import VECTOR_BYTES, pack_size

FILE = Path(__file__).with_name("bias_gelu.cu")
THREADS = 256
ROWS = 4  # of a thread at once, where not all are on the GPU at a time
ONE_EACH = 8  # rows of a matrix, at most, whose threads have a row each in the backward, as those of a small one have


def forward(x, bias, approximate, *, wide: bool):
    y = empty_contiguous(x)
    if y.numel():
        rows, bias = as_rows(x), as_columns(bias)
        count, width = rows.shape
        few = at_once(count, width, x.device)
        joined = rows_joined(rows, y.view(rows.shape), more_than=2 * ROWS) if wide and not few else 1
        M, N = count // joined, joined * width
        rest = y.numel() - M * N
        matrix = rows[: M * joined].view(M, N) if joined > 1 else rows
        size = pack_size(N, matrix, y.view(-1), None if joined > 1 else bias) if wide else 1
        size = min(size, 2 * elements_of_thread(x.numel(), x.device))
        threads, each = min(power_of_2_from(N // size), THREADS), 1 if few else ROWS
        across, height = -(-N // (size * threads)), THREADS // threads
        parameters = size, NAMES.index(GELU[approximate]), each, joined > 1
        down, most = -(-(M + (rest > 0)) // (each * height)), LAUNCH_GRID[1]
        grid = across, min(down, most), -(-down // most)
        arguments = (rows, bias, y, matrix.stride(0), M, N, width, rest)
        kernel(FILE, "bias_gelu_packs", x.dtype, *parameters)(grid, (threads, height), arguments)
    return y


def backward(dy, x, bias, approximate, *, wide: bool):
    """Deterministic on one kind of GPU: which rows a block adds up, and in which order, is fixed."""
    dx, dbias = empty_contiguous(x), empty_contiguous(bias)
    if not x.numel():
        return dx, dbias.zero_()
    dys, rows, bias = as_rows(dy), as_rows(x), as_columns(bias)
    matrices = dys, rows, dx.view(rows.shape)
    M, width = rows.shape
    activation, each = NAMES.index(GELU[approximate]), elements_of_thread(x.numel(), x.device)
    if M <= ONE_EACH or (M <= FEW_ROWS and each <= 2):
        size, height = min(pack_size(width, *matrices, bias), each) if wide else 1, power_of_2_from(M)
        block = max(THREADS // height, 8), height
        arguments = dys, rows, bias, dx, dbias, dys.stride(0), rows.stride(0), M, width
        launched = kernel(FILE, "bias_gelu_backward_few", x.dtype, size, activation)
        launched((-(-width // (size * block[0])),), block, arguments)
        return dx, dbias
    joined = rows_joined(*matrices, more_than=FEW_ROWS) if wide else 1  # each has a partial sum
    M, N = M // joined, joined * width
    dys, rows, dxs = (matrix[: M * joined].view(M, N) if joined > 1 else matrix for matrix in matrices)
    size = pack_size(N, dys, rows, dxs) if wide else 1
    (across, G), block = column_blocks_of_packs(M, N, size, x.device)
    parts = G * joined
    sums = torch.empty((parts, 1, width), dtype=torch.float32, device=x.device) if parts > 1 else None
    launched = kernel(FILE, "bias_gelu_backward_packs", x.dtype, size, activation, ROWS)
    numbers = dys.stride(0), rows.stride(0), M, N, width, x.numel() - M * N
    launched((across, G), block, (dys, rows, bias, dx, sums, None if parts > 1 else dbias, *numbers))
    if sums is not None:
        column_sums(sums, dbias)
    return dx, dbias


def rows_joined(*matrices: torch.Tensor, more_than: int) -> int:
    """How many neighbouring rows make one that starts at a 16-byte vector, whatever its width, in memory without gaps: one,
    unless more are made than so many."""
    M, N = matrices[0].shape
    vector = VECTOR_BYTES // matrices[0].itemsize
    joined = vector // math.gcd(N, vector)
    if M // joined <= more_than or joined * N >= 2**31 or not all(matrix.is_contiguous() for matrix in matrices):
        return 1
    return joined


SOURCE = (FILE, *(DEVICE / name for name in ("activations.cuh", "packs.cuh", "vectors.cuh")), Path(__file__))


def rungs(prefix: str, fn, source: tuple[Path, ...]) -> tuple[Variant, ...]:
    scalar, packs = partial(fn, wide=False), partial(fn, wide=True)
    return (
        Variant(5, f"{prefix}scalar", scalar, "a thread keeps a column and its bias", source, needs_compiler),
        Variant(5, f"{prefix}packs", packs, "16 bytes a load, or as many as the rows allow", source, needs_compiler),
    )


FORWARD, BACKWARD = rungs("", forward, SOURCE), rungs("backward-", backward, (*SOURCE, COLUMN_SUMS))
