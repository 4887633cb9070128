"""Level 5: the Python side of matmul.cu and matmul_wmma.cu, and the ladder.

Rungs, plain to best:
    element    one thread an element of y.
    coalesced  neighbouring threads read neighbouring elements of w.
    shared     tiles in shared memory.
    registers  4×4 elements a thread.
    wmma       half types on the tensor cores, by asynchronous copies; float32 stays with `registers`.
    wgmma      Hopper's own: tiles by TMA, products by warpgroups; other GPUs and matrices stay with `wmma`.
"""

from functools import partial
from pathlib import Path

import torch

from kernels.cuda.includes import with_includes
from kernels.cuda.rows import VECTOR_BYTES
from kernels.cuda.template import kernel
from kernels.machine import target
from kernels.operation import Variant
from kernels.ops.matmul import cuda_hopper, products
from kernels.unsupported import needs_compiler

FILE, WMMA = (Path(__file__).with_name(f"{name}.cu") for name in ("matmul", "matmul_wmma"))
SIDE, DEPTH, PAD, STAGES, THREADS = 128, 32, 8, 3, 128  # of matmul_wmma.cu and async_tiles.cuh


def plain(name: str, block: tuple[int, ...], rows: int, columns: int, x, w, y, bias, dy, activation) -> None:
    """A kernel of matmul.cu, with a block for each tile of rows×columns elements of y."""
    B, M, K = x.shape
    N = w.shape[2]
    tiles = -(-B * M * N // columns) if rows == 1 else B * -(-M // rows) * -(-N // columns)
    strides = (x.stride(0), x.stride(1), x.stride(2), w.stride(0), w.stride(1), w.stride(2))
    bias, dy = (None if one is None else one.contiguous() for one in (bias, dy))
    kernel(FILE, name, x.dtype)((tiles,), block, (x, w, bias, dy, y, B, M, N, K, *strides, int(activation == "gelu")))


def line(matrices: torch.Tensor) -> tuple[torch.Tensor, bool, int]:
    """Matrices with neighbouring elements in rows or in columns, whether in columns, and the stride of the other dimension."""
    if matrices.stride(2) == 1 or matrices.shape[2] == 1 and matrices.stride(1) != 1:
        return matrices, False, matrices.stride(1)
    if matrices.stride(1) == 1:
        return matrices, True, matrices.stride(2)
    return matrices.contiguous(), False, matrices.shape[2]


def aligned(matrices: torch.Tensor, by_columns: bool, stride: int) -> bool:
    """Whether every row, or column, is whole 16-byte vectors from its start."""
    length = matrices.shape[1 if by_columns else 2]
    of_batch = matrices.stride(0) if matrices.shape[0] > 1 else 0
    return all(n * matrices.itemsize % VECTOR_BYTES == 0 for n in (length, stride, of_batch)) and (
        matrices.data_ptr() % VECTOR_BYTES == 0
    )


def wmma(x, w, y, bias, dy, activation) -> None:
    if x.dtype == torch.float32 or (x.dtype == torch.bfloat16 and "bfloat16" not in target(x.device).features):
        return registers(x, w, y, bias, dy, activation)
    B, M, K = x.shape
    N = w.shape[2]
    (x, x_t, x_stride), (w, w_t, w_stride) = line(x), line(w)
    vectors = aligned(x, x_t, x_stride) and aligned(w, w_t, w_stride)
    bias, dy = (None if one is None else one.contiguous() for one in (bias, dy))
    x_tile = DEPTH * (SIDE + PAD) if x_t else SIDE * (DEPTH + PAD)
    w_tile = SIDE * (DEPTH + PAD) if w_t else DEPTH * (SIDE + PAD)
    shared_bytes = STAGES * (x_tile + w_tile) * x.itemsize
    launched = kernel(WMMA, "matmul_wmma", x.dtype, x_t, w_t, vectors, shared_bytes=shared_bytes)
    strides = x.stride(0), x_stride, w.stride(0), w_stride
    arguments = (x, w, bias, dy, y, B, M, N, K, *strides, int(activation == "gelu"))
    launched((B * -(-M // SIDE) * -(-N // SIDE),), (THREADS,), arguments, shared_mem=shared_bytes)


element = partial(plain, "matmul_element", (256,), 1, 256)
coalesced = partial(plain, "matmul_coalesced", (256,), 1, 256)
shared = partial(plain, "matmul_shared", (32, 32), 32, 32)
registers = partial(plain, "matmul_registers", (16, 16), 64, 64)
wgmma = partial(cuda_hopper.multiply, wmma)

SOURCE = (FILE, FILE.with_name("epilogue.cuh"), Path(__file__), Path(products.__file__))
RUNGS: dict[str, tuple[products.Multiply, str, tuple[Path, ...]]] = {
    "element": (element, "one thread an element of y", SOURCE),
    "coalesced": (coalesced, "neighbouring threads read neighbouring elements", SOURCE),
    "shared": (shared, "tiles in shared memory, read by all threads of a block", SOURCE),
    "registers": (registers, "4×4 elements a thread, each value read used four times", SOURCE),
    "wmma": (
        wmma,
        "half types on the tensor cores, tiles on their way",
        (*with_includes(WMMA), *SOURCE[2:]),
    ),
    "wgmma": (
        wgmma,
        "Hopper's own: tiles by TMA, multiplied by warpgroups, each with its role",
        (*with_includes(cuda_hopper.FILE), Path(cuda_hopper.__file__), *SOURCE[2:]),
    ),
}
FORWARD = tuple(
    Variant(5, name, products.forward(multiply), idea, source, needs_compiler)
    for name, (multiply, idea, source) in RUNGS.items()
)
BACKWARD = tuple(
    Variant(
        5, f"backward-{name}", products.backward(multiply), "products of transposed matrices", source, needs_compiler
    )
    for name, (multiply, _, source) in list(RUNGS.items())[-2:]
)
