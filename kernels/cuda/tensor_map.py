"""What the Tensor Memory Accelerator of Hopper is told of a tensor: device/tma.cuh takes it as a `TensorMap`."""

import ctypes
import functools

import numpy as np
import torch

MAP_BYTES = 128


def tensor_map(x: torch.Tensor, box: tuple[int, int]) -> np.void:
    """Where a tensor of 16-bit elements lies, which are neighbours in its last dimension, and a tile of its last two: of box[0]
    columns, which are a swizzled line of 128 bytes, and box[1] rows. Zeros where a launch is only planned."""
    if x.device.type == "cpu":
        return np.void(bytes(MAP_BYTES))
    # The stride of a dimension of one element is never used, and may be any.
    strides = (16 if n == 1 else step * x.itemsize for n, step in zip(x.shape[:-1], x.stride(), strict=False))
    return _encoded(x.data_ptr(), x.dtype, (*reversed(x.shape),), (*reversed((*strides,)),), box)


@functools.lru_cache(maxsize=1_024)
def _encoded(address: int, dtype: torch.dtype, shape: tuple, strides: tuple, box: tuple[int, int]) -> np.void:
    """shape, strides: innermost first; strides in bytes, of all dimensions but the first."""
    from cuda.bindings import driver  # a GPU's driver is needed for it

    types = driver.CUtensorMapDataType
    outer = len(shape) - 2
    error, found = driver.cuTensorMapEncodeTiled(
        types.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 if dtype == torch.bfloat16 else types.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        len(shape),
        address,
        [driver.cuuint64_t(n) for n in shape],
        [driver.cuuint64_t(step) for step in strides],
        [driver.cuuint32_t(side) for side in (*box, *[1] * outer)],
        [driver.cuuint32_t(1) for _ in shape],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"cuTensorMapEncodeTiled failed for shape {shape[::-1]}: {error.name}")
    return np.void(ctypes.string_at(int(found.getPtr()), MAP_BYTES))
