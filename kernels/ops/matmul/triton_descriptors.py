"""Level 4: products of half types by TMA descriptors, for GPUs that have the Tensor Memory Accelerator (Hopper and later).

A descriptor says where a matrix lies and how large a tile is; then one thread asks for a tile by its corner, and hardware works
out the addresses, fills in zeros beyond the edges and writes it to shared memory as the tensor cores read it. There are as many
programs as multiprocessors, each with every so manieth tile, whose first loads overlap the last products of the one before.

Descriptors want 16-byte aligned lines of neighbouring elements. Other matrices, batches of several, float32, and GPUs without
TMA or with less shared memory are left to the rung before.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels import machine
from kernels.ops.matmul import triton_tiles
from kernels.ops.matmul.triton_tiles import epilogue, large_tile, tile_of
from kernels.triton.launch import launch


@triton.jit
def matmul_descriptors_kernel(
    x, w, y, bias_ptr, dy_ptr, M, N, K, X_T: tl.constexpr, W_T: tl.constexpr, GELU: tl.constexpr,
    GROUP_M: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    # flatten: the loop over tiles and the one over K become one, whose loads are STAGES ahead across tiles, too.
    for number in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True, num_stages=STAGES):
        tile_m, tile_n = tile_of(number, M, N, GROUP_M, BLOCK_M, BLOCK_N)
        i, j = tile_m * BLOCK_M, tile_n * BLOCK_N
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            # A transposed matrix lies in memory by columns, and so do its tiles.
            of_x = x.load([k, i]).T if X_T else x.load([i, k])
            of_w = w.load([j, k]).T if W_T else w.load([k, j])
            total = tl.dot(of_x, of_w, total)
        rows = (i + tl.arange(0, BLOCK_M)).to(tl.int64)[:, None]
        columns = (j + tl.arange(0, BLOCK_N))[None, :]
        inside = (rows < M) & (columns < N)
        total = epilogue(total, bias_ptr, dy_ptr, rows, columns, inside, N, GELU)
        y.store([i, j], total.to(y.dtype))


SHARED_BYTES = 216 << 10  # at most: three stages of the largest tiles, and a tile of y on its way out


def is_transposed(x: torch.Tensor) -> bool | None:
    """Whether a matrix lies by columns; None if it lies in no way that a descriptor can tell."""
    for transposed, (lines, neighbours) in ((False, x.stride()), (True, x.stride()[::-1])):
        if neighbours == 1 and lines * x.itemsize % 16 == 0 and lines >= x.shape[0 if transposed else 1]:
            return transposed
    return None


def multiply(x, w, y, bias, dy, activation) -> None:
    matrices = x[0], w[0], y[0]
    transposed = [is_transposed(one) for one in matrices]
    aligned = None not in transposed and not transposed[2] and all(one.data_ptr() % 16 == 0 for one in matrices)
    (B, M, K), N = x.shape, w.shape[2]
    gpu = machine.target(x.device)
    has_room = "TMA" in gpu.features and gpu.shared_bytes_per_block >= SHARED_BYTES
    if B > 1 or not K or x.itemsize != 2 or not aligned or not has_room:
        triton_tiles.multiply(large_tile, x, w, y, bias, dy, activation)
        return
    tile = large_tile(M, N, K, x.itemsize)
    tiles = triton.cdiv(M, tile["BLOCK_M"]) * triton.cdiv(N, tile["BLOCK_N"])
    programs = min(tiles, machine.multiprocessors(x.device))
    blocks = [
        [tile["BLOCK_M"], tile["BLOCK_K"]],
        [tile["BLOCK_K"], tile["BLOCK_N"]],
        [tile["BLOCK_M"], tile["BLOCK_N"]],
    ]
    descriptors = [
        TensorDescriptor.from_tensor(one.mT if flipped else one, block[::-1] if flipped else block)
        for one, block, flipped in zip(matrices, blocks, transposed, strict=True)
    ]
    bias, dy = (None if one is None else one.contiguous() for one in (bias, dy))
    options = {"X_T": transposed[0], "W_T": transposed[1], "GELU": activation == "gelu"}
    launch(matmul_descriptors_kernel, (programs,), *descriptors, bias, dy, M, N, K, **options, **tile)
