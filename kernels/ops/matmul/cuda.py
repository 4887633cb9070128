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
from kernels.cuda.template import kernel
from kernels.hardware import WARP
from kernels.machine import multiprocessors, target
from kernels.operation import Variant
from kernels.ops.matmul import cuda_hopper, products
from kernels.unsupported import needs_compiler
from kernels.vectors import VECTOR_BYTES

FILE, WMMA = (Path(__file__).with_name(f"{name}.cu") for name in ("matmul", "matmul_wmma"))
PART, PAD = 64, 8  # of matmul_wmma.cu and async_tiles.cuh
Tile = tuple[int, int, int, int]  # of matmul_wmma.cu: rows and columns, how many of K at a time, and stages
SMALL: Tile = (128, 128, 32, 3)
LARGE: Tile = (128, 256, 64, 4)


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
    batch_stride = matrices.stride(0) if matrices.shape[0] > 1 else 0
    return all(n * matrices.itemsize % VECTOR_BYTES == 0 for n in (length, stride, batch_stride)) and (
        matrices.data_ptr() % VECTOR_BYTES == 0
    )


def tile_shared_bytes(tile: Tile, x_t: bool, w_t: bool) -> int:
    """Dynamic shared memory of a block of matmul_wmma.cu."""
    rows, columns, depth, stages = tile
    x_tile = depth * (rows + PAD) if x_t else rows * (depth + PAD)
    w_tile = columns * (depth + PAD) if w_t else depth * (columns + PAD)
    return stages * (x_tile + w_tile) * 2


def tile_for(B: int, M: int, N: int, device: torch.device) -> Tile:
    """The large tile reads less for its products. It is for multiprocessors that have room for it, and of which some would get
    two of the small ones instead."""
    rows, columns, *_ = LARGE
    tiles = B * -(-M // rows) * -(-N // columns)
    fits = tile_shared_bytes(LARGE, False, True) <= target(device).shared_bytes_per_block
    filled = 2 * tiles > multiprocessors(device) and min(M - rows, N - columns) >= 0
    return LARGE if filled and fits else SMALL


def wmma(x, w, y, bias, dy, activation) -> None:
    if x.dtype == torch.float32 or (x.dtype == torch.bfloat16 and "bfloat16" not in target(x.device).features):
        return registers(x, w, y, bias, dy, activation)
    (B, M, K), N = x.shape, w.shape[2]
    (x, x_t, x_stride), (w, w_t, w_stride) = line(x), line(w)
    vectors = aligned(x, x_t, x_stride) and aligned(w, w_t, w_stride)
    bias, dy = (None if one is None else one.contiguous() for one in (bias, dy))
    finished_in_vectors = all(aligned(one.view(1, -1, N), False, N) for one in (y, bias, dy) if one is not None)
    rows, columns, *_ = tile = tile_for(B, M, N, x.device)
    shared_bytes = tile_shared_bytes(tile, x_t, w_t)
    launched = kernel(WMMA, "matmul_wmma", x.dtype, x_t, w_t, vectors, *tile, shared_bytes=shared_bytes)
    strides = x.stride(0), x_stride, w.stride(0), w_stride
    arguments = (x, w, bias, dy, y, B, M, N, K, *strides, int(activation == "gelu"), int(finished_in_vectors))
    blocks, threads = B * -(-M // rows) * -(-N // columns), rows // PART * (columns // PART) * WARP
    launched((blocks,), (threads,), arguments, shared_mem=shared_bytes)


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
