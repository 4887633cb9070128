"""Level 5: the Python side of swiglu.cu."""

from functools import partial
from pathlib import Path

import torch

from kernels.activations import NAMES
from kernels.arguments import as_rows, empty_contiguous
from kernels.cuda.includes import DEVICE
from kernels.cuda.rows import power_of_2_from
from kernels.cuda.template import kernel
from kernels.machine import elements_of_thread
from kernels.operation import Variant
from kernels.unsupported import needs_compiler
from kernels.vectors import pack_size

FILE = Path(__file__).with_name("swiglu.cu")
THREADS = 256


def run(
    name: str, given: tuple[torch.Tensor, ...], outs: tuple[torch.Tensor, ...], activation: str, wide: bool
) -> None:
    """Launch a kernel on the matrices that are given, and on contiguous ones that it writes."""
    if not outs[0].numel():
        return
    rows = [as_rows(tensor) for tensor in given]
    if all(matrix.is_contiguous() for matrix in rows):  # memory without gaps is one row, of whatever width
        rows = [matrix.view(1, -1) for matrix in rows]
    M, N = rows[0].shape
    size = 1
    if wide:
        size = pack_size(N if M > 1 else 0, *rows, *(out.view(M, N) for out in outs))
        size = min(size, elements_of_thread(M * N, outs[0].device))
    threads = N // size + N % size  # one for each pack of a row, and for each column that is left over
    across = min(power_of_2_from(threads), THREADS)
    block, blocks = (across, THREADS // across), -(-threads // across)
    arguments = (*rows, *outs, *(matrix.stride(0) for matrix in rows), M, N, blocks)
    launched = kernel(FILE, name, outs[0].dtype, size, NAMES.index(activation))
    launched((blocks * -(-M // block[1]),), block, arguments)


def forward(gate, up, activation, *, wide: bool):
    y = empty_contiguous(gate)
    run("swiglu_packs", (gate, up), (y,), activation, wide)
    return y


def backward(dy, gate, up, activation, *, wide: bool):
    dgate, dup = empty_contiguous(gate), empty_contiguous(up)
    run("swiglu_backward_packs", (dy, gate, up), (dgate, dup), activation, wide)
    return dgate, dup


SOURCE = (FILE, *(DEVICE / name for name in ("activations.cuh", "packs.cuh", "vectors.cuh")), Path(__file__))


def ladder(prefix: str, fn) -> tuple[Variant, ...]:
    scalar, packs = partial(fn, wide=False), partial(fn, wide=True)
    return (
        Variant(5, f"{prefix}scalar", scalar, "a thread for each element", SOURCE, needs_compiler),
        Variant(5, f"{prefix}packs", packs, "16 bytes a load, or what rows and threads allow", SOURCE, needs_compiler),
    )


FORWARD, BACKWARD = ladder("", forward), ladder("backward-", backward)
