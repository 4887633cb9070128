"""Level 4: products of half types by TMA descriptors, for GPUs that have the Tensor Memory Accelerator (Hopper and later).

A descriptor says where a matrix lies and how large a tile is; then one thread asks for a tile by its corner, and hardware works
out the addresses, fills in zeros beyond the edges and writes it to shared memory as the tensor cores read it. There are as many
programs as multiprocessors, and each takes every n-th tile, n being the number of programs. A tile's first loads overlap the
last products of the one before.

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
    x, w, y, bias_ptr, dy_ptr, M, N, K_OF_PART, X_T: tl.constexpr, W_T: tl.constexpr, GELU: tl.constexpr,
    GROUP_M: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    # flatten: the loop over tiles and the one over K become one, whose loads are STAGES ahead across tiles, too.
    for number in tl.range(tl.program_id(0), tiles * PARTS, tl.num_programs(0), flatten=True, num_stages=STAGES):
        tile_m, tile_n = tile_of(number % tiles, M, N, GROUP_M, BLOCK_M, BLOCK_N)
        i, j, part = tile_m * BLOCK_M, tile_n * BLOCK_N, number // tiles
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for step in range(0, K_OF_PART, BLOCK_K):
            # Beyond the end of K there are zeros. A transposed matrix lies in memory by columns, and so do its tiles.
            k = part * K_OF_PART + step
            x_tile = x.load([k, i]).T if X_T else x.load([i, k])
            w_tile = w.load([j, k]).T if W_T else w.load([k, j])
            total = tl.dot(x_tile, w_tile, total)
        if PARTS > 1:
            y.store([part, i, j], total.reshape(1, BLOCK_M, BLOCK_N))
        else:
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


def has_descriptors(x, w, y) -> bool:
    """Whether a product is one of matrices that descriptors can tell, on a GPU that has TMA and room for the tiles."""
    matrices = x[0], w[0], y[0]
    transposed = [is_transposed(one) for one in matrices]
    aligned = None not in transposed and not transposed[2] and all(one.data_ptr() % 16 == 0 for one in matrices)
    gpu = machine.target(x.device)
    has_room = "TMA" in gpu.features and gpu.shared_bytes_per_block >= SHARED_BYTES
    return len(x) == 1 and x.shape[2] > 0 and x.itemsize == 2 and aligned and has_room


def multiply_by_descriptors(x, w, y, bias, dy, activation, tile: dict[str, int], parts: int = 1) -> None:
    """Of matrices: y of M×N; or, of sums that are cut along K, parts×M×N in float32 without the epilogue."""
    (M, K), N = x.shape, w.shape[1]
    BLOCK_M, BLOCK_N, BLOCK_K = tile["BLOCK_M"], tile["BLOCK_N"], tile["BLOCK_K"]
    flipped = [is_transposed(one) for one in (x, w)]
    x_descriptor, w_descriptor = (
        TensorDescriptor.from_tensor(one.mT if flip else one, block[::-1] if flip else block)
        for one, block, flip in zip((x, w), ([BLOCK_M, BLOCK_K], [BLOCK_K, BLOCK_N]), flipped, strict=True)
    )
    y_descriptor = TensorDescriptor.from_tensor(y, [BLOCK_M, BLOCK_N] if parts == 1 else [1, BLOCK_M, BLOCK_N])
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N) * parts
    programs = min(tiles, machine.multiprocessors(x.device))
    part_depth = triton.cdiv(K, parts * BLOCK_K) * BLOCK_K
    bias, dy = (None if one is None else one.contiguous() for one in (bias, dy))
    options = {"X_T": flipped[0], "W_T": flipped[1], "GELU": activation == "gelu", "PARTS": parts}
    launch(
        matmul_descriptors_kernel,
        (programs,),
        x_descriptor,
        w_descriptor,
        y_descriptor,
        bias,
        dy,
        M,
        N,
        part_depth,
        **options,
        **tile,
    )


def multiply(x, w, y, bias, dy, activation) -> None:
    tile = large_tile(x.shape[1], w.shape[2], x.shape[2], x.itemsize)
    if has_descriptors(x, w, y):
        multiply_by_descriptors(x[0], w[0], y[0], bias, dy, activation, tile)
    else:
        triton_tiles.multiply(large_tile, x, w, y, bias, dy, activation)
