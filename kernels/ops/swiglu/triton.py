"""Level 4: SwiGLU and GeGLU in Triton, forward and backward: every tensor is read or written once, in tiles."""

from functools import partial
from pathlib import Path

import torch
import triton
import triton.language as tl

from kernels.arguments import as_rows, empty_contiguous
from kernels.hardware import WARP
from kernels.machine import elements_of_thread
from kernels.operation import Variant
from kernels.triton import activations, tiles
from kernels.triton.activations import activated
from kernels.triton.launch import launch
from kernels.triton.tiles import elements, tile, tiles_of
from kernels.unsupported import needs_interpreter

THREADS = 128  # of a program

# In the kernels, `whole` is how many of the first tiles lie in memory without gaps and need no mask. A mask by an odd N would
# cost them their wide loads: the compiler can't tell that neighbours share its verdict.


@triton.jit
def put_product(gate_ptr, up_ptr, y_ptr, inside, ACTIVATION: tl.constexpr, EXACT: tl.constexpr):
    """One element of each of these pointers; of all of them where `inside` is None."""
    gate, up = tl.load(gate_ptr, mask=inside).to(tl.float32), tl.load(up_ptr, mask=inside).to(tl.float32)
    value, _ = activated(gate, ACTIVATION, EXACT)
    tl.store(y_ptr, value * up, mask=inside)


@triton.jit
def swiglu_kernel(
    gate_ptr, up_ptr, y_ptr, gate_stride, up_stride, M, N, whole,
    ACTIVATION: tl.constexpr, EXACT: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    if tl.program_id(0) < whole:
        at = elements(ROWS * BLOCK_N)
        put_product(gate_ptr + at, up_ptr + at, y_ptr + at, None, ACTIVATION, EXACT)
    else:
        rows, columns, inside = tile(M, N, ROWS, BLOCK_N)
        gate_at, up_at, y_at = rows * gate_stride + columns, rows * up_stride + columns, rows * N + columns
        put_product(gate_ptr + gate_at, up_ptr + up_at, y_ptr + y_at, inside, ACTIVATION, EXACT)


@triton.jit
def put_gradients(dy_ptr, gate_ptr, up_ptr, dgate_ptr, dup_ptr, inside, ACTIVATION: tl.constexpr, EXACT: tl.constexpr):
    """As `put_product`."""
    dy, gate = tl.load(dy_ptr, mask=inside).to(tl.float32), tl.load(gate_ptr, mask=inside).to(tl.float32)
    up = tl.load(up_ptr, mask=inside).to(tl.float32)
    value, slope = activated(gate, ACTIVATION, EXACT)
    tl.store(dgate_ptr, dy * up * slope, mask=inside)
    tl.store(dup_ptr, dy * value, mask=inside)


@triton.jit
def swiglu_backward_kernel(
    dy_ptr, gate_ptr, up_ptr, dgate_ptr, dup_ptr, dy_stride, gate_stride, up_stride, M, N, whole,
    ACTIVATION: tl.constexpr, EXACT: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    if tl.program_id(0) < whole:
        at = elements(ROWS * BLOCK_N)
        put_gradients(dy_ptr + at, gate_ptr + at, up_ptr + at, dgate_ptr + at, dup_ptr + at, None, ACTIVATION, EXACT)
    else:
        rows, columns, inside = tile(M, N, ROWS, BLOCK_N)
        dy_at, gate_at, up_at = rows * dy_stride + columns, rows * gate_stride + columns, rows * up_stride + columns
        out = rows * N + columns
        put_gradients(
            dy_ptr + dy_at,
            gate_ptr + gate_at,
            up_ptr + up_at,
            dgate_ptr + out,
            dup_ptr + out,
            inside,
            ACTIVATION,
            EXACT,
        )


def run(kernel, given: tuple[torch.Tensor, ...], outs: tuple[torch.Tensor, ...], activation: str, flat: bool) -> None:
    """Launch a kernel on the matrices that are given, and on contiguous ones that it writes."""
    if not outs[0].numel():
        return
    rows = [as_rows(tensor) for tensor in given]
    one_row = flat and all(matrix.is_contiguous() for matrix in rows)
    if one_row:
        rows = [matrix.view(1, -1) for matrix in rows]
    M, N = rows[0].shape
    count = THREADS * elements_of_thread(M * N, rows[0].device)
    programs, shape = tiles_of(M, N, count)
    whole = N // count if one_row else 0
    strides = (matrix.stride(0) for matrix in rows)
    how = {"ACTIVATION": activation, "EXACT": outs[0].dtype == torch.float32}
    launch(kernel, (programs,), *rows, *outs, *strides, M, N, whole, **how, **shape, num_warps=THREADS // WARP)


def forward(gate, up, activation, *, flat: bool):
    y = empty_contiguous(gate)
    run(swiglu_kernel, (gate, up), (y,), activation, flat)
    return y


def backward(dy, gate, up, activation, *, flat: bool):
    dgate, dup = empty_contiguous(gate), empty_contiguous(up)
    run(swiglu_backward_kernel, (dy, gate, up), (dgate, dup), activation, flat)
    return dgate, dup


def ladder(prefix: str, fn) -> tuple[Variant, ...]:
    source = (Path(__file__), Path(activations.__file__), Path(tiles.__file__))
    tiled, flat = partial(fn, flat=False), partial(fn, flat=True)
    return (
        Variant(4, f"{prefix}tiles", tiled, "one program a tile of rows and columns", source, needs_interpreter),
        Variant(
            4, f"{prefix}flat", flat, "memory without gaps is one row: its width is even", source, needs_interpreter
        ),
    )


FORWARD, BACKWARD = ladder("", forward), ladder("backward-", backward)
