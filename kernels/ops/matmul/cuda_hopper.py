"""Level 5: the Python side of matmul_wgmma.cu, for Hopper GPUs.

TMA wants 16-byte aligned lines of neighbouring elements. Other matrices, batches of several, float32 and other GPUs are left
to the rung before.
"""

import ctypes
import functools
from pathlib import Path

import numpy as np
import torch

from kernels import machine
from kernels.cuda.template import kernel
from kernels.ops.matmul.products import Multiply
from kernels.ops.matmul.triton_descriptors import is_transposed

FILE = Path(__file__).with_name("matmul_wgmma.cu")
DEPTH, LINE, THREADS = 64, 64, 384  # of matmul_wgmma.cu
MAP_BYTES = 128


def tensor_map(lines: torch.Tensor, box: tuple[int, int]) -> np.void:
    """What TMA is told of a matrix with neighbouring elements in rows: where it lies, and a tile of box[0] columns, which are a
    swizzled line of 128 bytes, and box[1] rows. Zeros where a launch is only planned."""
    if lines.device.type == "cpu":
        return np.void(bytes(MAP_BYTES))
    return _encoded(
        lines.data_ptr(), lines.dtype, lines.shape[1], lines.shape[0], lines.stride(0) * lines.itemsize, box
    )


@functools.lru_cache(maxsize=1_024)
def _encoded(address: int, dtype: torch.dtype, columns: int, rows: int, stride: int, box: tuple[int, int]) -> np.void:
    from cuda.bindings import driver  # a GPU's driver is needed for it

    types = driver.CUtensorMapDataType
    error, found = driver.cuTensorMapEncodeTiled(
        types.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 if dtype == torch.bfloat16 else types.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        2,
        address,
        [driver.cuuint64_t(columns), driver.cuuint64_t(rows)],
        [driver.cuuint64_t(stride)],
        [driver.cuuint32_t(side) for side in box],
        [driver.cuuint32_t(1), driver.cuuint32_t(1)],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"cuTensorMapEncodeTiled failed for {rows}×{columns} elements: {error.name}")
    return np.void(ctypes.string_at(int(found.getPtr()), MAP_BYTES))


def tile_for(N: int) -> tuple[int, int, int]:
    """Rows, columns and stages. A warpgroup that keeps 64×256 sums reads least for its products."""
    return (128, 256, 4) if N > 128 else (128, 128, 6)


def multiply(before: Multiply, x, w, y, bias, dy, activation) -> None:
    """before: the rung that takes what this one cannot."""
    (B, M, K), N = x.shape, w.shape[2]
    x_t, w_t = is_transposed(x[0]), is_transposed(w[0])
    aligned = None not in (x_t, w_t) and all(one.data_ptr() % 16 == 0 for one in (x, w, y))
    if B > 1 or not K or x.itemsize != 2 or not aligned or not machine.has(x.device, "wgmma"):
        before(x, w, y, bias, dy, activation)
        return
    rows, columns, stages = tile_for(N)
    # Lines along K are boxes of a whole side; lines along a side are parts of it, DEPTH of them.
    x_map = tensor_map(x[0].mT if x_t else x[0], (LINE, DEPTH if x_t else rows))
    w_map = tensor_map(w[0].mT if w_t else w[0], (LINE, columns if w_t else DEPTH))
    bias, dy = (None if one is None else one.contiguous() for one in (bias, dy))
    shared_bytes = 1_024 + stages * (rows + columns) * DEPTH * x.itemsize
    options = {"options": ("-arch=sm_90a",), "shared_bytes": shared_bytes}
    finish = bias is not None, activation == "gelu", dy is not None
    launched = kernel(FILE, "matmul_wgmma", x.dtype, x_t, w_t, rows, columns, stages, *finish, **options)
    blocks = min(-(-M // rows) * -(-N // columns), machine.multiprocessors(x.device))
    launched((blocks,), (THREADS,), (x_map, w_map, bias, dy, y, M, N, K), shared_mem=shared_bytes)
