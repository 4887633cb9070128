"""The headers that kernels share, and the launches that go with them."""

import pytest
import torch

from kernels.cuda import RawModule
from kernels.cuda.rows import (
    block_of_rows,
    column_sums,
    power_of_2_from,
    scalar_threads,
    threads_of_row,
    vectors_of_thread,
)
from kernels.cuda.template import TYPES, kernel
from kernels.vectors import in_vectors

pytestmark = pytest.mark.usefixtures("nvrtc_too")

REDUCTIONS = """
#include "reductions.cuh"

extern "C" __global__ void warp_parts(const float* x, float* sums, float* largest)
{
    int i = blockIdx.x * 32 + threadIdx.x;
    sums[i] = warp_sum<8>(x[i]);
    largest[i] = warp_max(x[i]);
}

extern "C" __global__ void rows_of_warps(const float* x, float* sums, float* largest)
{
    __shared__ float warp_parts[2][32];
    int i = (blockIdx.x * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    sums[i] = row_sum(x[i], warp_parts[0]);
    largest[i] = row_max(x[i], warp_parts[1]);
}

extern "C" __global__ void rows_of_a_warp(const float* x, float* sums)
{
    int i = blockIdx.x * 32 + threadIdx.y * 8 + threadIdx.x;
    sums[i] = row_sum<8>(x[i], nullptr);
}
"""
MODULE = RawModule(code=REDUCTIONS, name_expressions=("warp_parts", "rows_of_warps", "rows_of_a_warp"))


def test_reductions_of_a_warp(device):
    x = torch.randn(4, 32, device=device)
    sums, largest = torch.empty_like(x), torch.empty_like(x)
    MODULE.get_function("warp_parts")((4,), (32,), (x, sums, largest))
    by_eight = x.view(4, 4, 8).sum(-1, keepdim=True).expand(4, 4, 8).reshape(4, 32)
    torch.testing.assert_close(sums, by_eight)
    assert torch.equal(largest, x.max(-1, keepdim=True).values.expand_as(x))


@pytest.mark.parametrize("threads, rows", [(32, 1), (32, 3), (96, 1), (1024, 1)])
def test_reductions_of_the_threads_that_share_a_row(device, threads, rows):
    x = torch.randn(2 * rows, threads, device=device) - 3  # all may be negative: a lane beyond the warps brings no zero
    sums, largest = torch.empty_like(x), torch.empty_like(x)
    MODULE.get_function("rows_of_warps")((2,), (threads, rows), (x, sums, largest))
    torch.testing.assert_close(sums, x.sum(-1, keepdim=True).expand_as(x))
    assert torch.equal(largest, x.max(-1, keepdim=True).values.expand_as(x))


def test_sums_of_rows_that_share_a_warp(device):
    x = torch.randn(12, 8, device=device)
    sums = torch.empty_like(x)
    MODULE.get_function("rows_of_a_warp")((3,), (8, 4), (x, sums))
    torch.testing.assert_close(sums, x.sum(-1, keepdim=True).expand_as(x))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("G, N", [(1, 1), (40, 33), (3, 64)])
def test_sums_over_blocks(device, dtype, G, N):
    for count in (1, 2):
        partial = torch.randn(G, count, N, device=device)
        sums = [torch.full((N,), 77, dtype=dtype, device=device) for _ in range(count)]
        column_sums(partial, *sums)
        for number, found in enumerate(sums):
            torch.testing.assert_close(found, partial[:, number].sum(0).to(dtype))


def test_a_sum_that_nobody_wants_is_left_out(device):
    partial, second = torch.randn(5, 2, 40, device=device), torch.empty(40, device=device)
    column_sums(partial, None, second)
    torch.testing.assert_close(second, partial[:, 1].sum(0))
    column_sums(partial, None, None)


TEMPLATE = """
template <typename T, int N, bool DOUBLE>
__global__ void fill(T* x)
{
    extern __shared__ float kept[];
    kept[threadIdx.x] = (DOUBLE ? 2 : 1) * (N + PLUS);
    __syncthreads();
    x[threadIdx.x] = (T)kept[threadIdx.x];
}
"""


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_an_instance_of_a_template(device, dtype, tmp_path):
    path = tmp_path / "fill.cu"
    path.write_text(f"#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n{TEMPLATE}")
    x = torch.zeros(64, dtype=dtype, device=device)
    fill = kernel(path, "fill", dtype, 3, True, options=("-DPLUS=4",), shared_bytes=64 << 10)
    fill((1,), (64,), (x,), shared_mem=60 << 10)
    assert (x == 14).all()
    assert fill is kernel(path, "fill", dtype, 3, True, options=("-DPLUS=4",), shared_bytes=64 << 10)


def test_rows_in_vectors():
    x = torch.zeros(4, 64, dtype=torch.float16)
    assert in_vectors(64, x, x[0], None) and in_vectors(8, x[:, 8:16])
    assert not in_vectors(60, x[:, :60]) and not in_vectors(8, x[:, 1:9]) and not in_vectors(8, x[:, :63].contiguous())


@pytest.mark.parametrize("N", [1, 33, 768, 1024, 5000])
def test_threads_hold_a_row(N):
    threads = threads_of_row(N)
    assert threads % 32 == 0 and threads * 32 >= N > (threads - 32) * 32
    assert vectors_of_thread(N, threads, 2) * threads * 8 >= N
    assert scalar_threads(N) in (32, 64, 128, 256, 512) and power_of_2_from(N) // 2 < N <= power_of_2_from(N)


@pytest.mark.parametrize(
    "threads, packs, expected",
    [
        (32, 1, (1, 256)),
        (32, 8, (8, 32)),
        (32, 9, (16, 16)),
        (32, 17, (32, 2)),
        (32, 128, (32, 2)),
        (96, 384, (96, 1)),
    ],
)
def test_narrow_rows_share_a_warp(threads, packs, expected):
    assert block_of_rows(threads, packs) == expected
