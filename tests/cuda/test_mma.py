"""Which lane has which element of mma.cuh's matrices: on a CPU by our own words, on a GPU by the hardware's."""

import pytest
import torch

from kernels.cuda import RawModule
from kernels.cuda.template import TYPES

pytestmark = pytest.mark.usefixtures("nvrtc_too")

SOURCE = """
#include "mma.cuh"

__device__ unsigned word(const void* elements, int i) { return ((const unsigned*)elements)[i / 2]; }

template <typename T>
__global__ void product(const T* a, const T* b, float* sums)  // b: its columns one after the other
{
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    float of_lane[4];
    for (int i = 0; i < 4; ++i) of_lane[i] = sums[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
    const unsigned rows[4] = {word(a, g * 16 + 2 * t), word(a, (g + 8) * 16 + 2 * t), word(a, g * 16 + 2 * t + 8),
                              word(a, (g + 8) * 16 + 2 * t + 8)};
    multiply_add<T>(of_lane, rows, {word(b, g * 16 + 2 * t), word(b, g * 16 + 2 * t + 8)});
    for (int i = 0; i < 4; ++i) sums[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = of_lane[i];
}

template <typename T>
__global__ void turn(const T* x, T* y)
{
    ((unsigned*)y)[threadIdx.x] = transposed(((const unsigned*)x)[threadIdx.x]);
}
"""
NAMES = [f"{name}<{TYPES[dtype]}>" for name in ("product", "turn") for dtype in (torch.float16, torch.bfloat16)]
MODULE = RawModule(code=SOURCE, name_expressions=tuple(NAMES))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_product_is_added(device, dtype):
    random = torch.Generator().manual_seed(0)
    a, b = (torch.randn(shape, generator=random).to(device, dtype) for shape in ((16, 16), (8, 16)))
    sums = torch.randn(16, 8, generator=random).to(device)
    expected = sums.double() + a.double() @ b.double().mT
    MODULE.get_function(f"product<{TYPES[dtype]}>")((1,), (32,), (a, b, sums))
    torch.testing.assert_close(sums.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_matrix_of_eight_rows_is_transposed(device, dtype):
    x = torch.arange(64, device=device).to(dtype).view(8, 8)
    y = torch.empty_like(x)
    MODULE.get_function(f"turn<{TYPES[dtype]}>")((1,), (32,), (x, y))
    assert torch.equal(y, x.mT)
