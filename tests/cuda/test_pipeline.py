"""Asynchronous copies: they are there after their wait, and on a CPU not before."""

import pytest
import torch
from one_block import run

from kernels.cuda import LaunchError, RawKernel, RawModule

pytestmark = pytest.mark.usefixtures("nvrtc_too")


CODE = """
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/pipeline>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;

template <int PRIOR>
__global__ void stages(const float* x, float* y, int n) {
    __shared__ float buffer[3][64];
    const int t = threadIdx.x, tiles = n / 64;
    for (int s = 0; s < 2; ++s) {
        if (s < tiles) __pipeline_memcpy_async(&buffer[s][t], &x[s * 64 + t], sizeof(float));
        __pipeline_commit();
    }
    for (int s = 0; s < tiles; ++s) {
        if (s + 2 < tiles) __pipeline_memcpy_async(&buffer[(s + 2) % 3][t], &x[(s + 2) * 64 + t], sizeof(float));
        __pipeline_commit();
        if (PRIOR >= 0) __pipeline_wait_prior(PRIOR);
        __syncthreads();
        y[s * 64 + t] = buffer[s % 3][63 - t];
        __syncthreads();
    }
}

__global__ void uncommitted(const float* x, float* y, int n) {
    __shared__ float4 a[64], b[64];
    const int t = threadIdx.x;
    __pipeline_memcpy_async(&a[t], &reinterpret_cast<const float4*>(x)[t], 16, 8);
    __pipeline_commit();
    __pipeline_memcpy_async(&b[t], &reinterpret_cast<const float4*>(x)[t + 64], 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    reinterpret_cast<float4*>(y)[t] = a[t];
    __pipeline_wait_prior(0);
    reinterpret_cast<float4*>(y)[t + 64] = b[t];
}

template <bool WAITS>
__global__ void pipeline_of_thread(const float* x, float* y, int n) {
    __shared__ float4 buffer[2][64];
    auto pipe = cuda::make_pipeline();
    const float4* from = reinterpret_cast<const float4*>(x);
    float4* to = reinterpret_cast<float4*>(y);
    const int t = threadIdx.x, tiles = n / 256;
    for (int s = 0; s < tiles + 1; ++s) {
        if (s < tiles) {
            pipe.producer_acquire();
            cuda::memcpy_async(&buffer[s % 2][t], &from[s * 64 + t], cuda::aligned_size_t<16>(16), pipe);
            pipe.producer_commit();
        }
        if (s > 0) {
            if (WAITS) pipe.consumer_wait();
            to[(s - 1) * 64 + t] = buffer[(s - 1) % 2][t];
            pipe.consumer_release();
        }
    }
}

enum class Way { unified, roles, count };

template <Way WAY>
__global__ void pipeline_of_block(const float* x, float* y, int n) {
    constexpr int stages = 2;
    __shared__ float buffer[stages][32];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
    auto block = cooperative_groups::this_thread_block();
    auto pipe = [&] {
        if constexpr (WAY == Way::unified) return cuda::make_pipeline(block, &state);
        else if constexpr (WAY == Way::roles) return cuda::make_pipeline(block, &state,
            threadIdx.x < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
        else return cuda::make_pipeline(block, &state, size_t(32));
    }();
    const int tiles = n / 32, lane = threadIdx.x % 32;
    if (WAY == Way::unified || threadIdx.x < 32)
        for (int s = 0; s < tiles; ++s) {
            pipe.producer_acquire();
            cuda::memcpy_async(&buffer[s % stages][lane], &x[s * 32 + lane], sizeof(float), pipe);
            pipe.producer_commit();
            if (WAY != Way::unified) continue;
            pipe.consumer_wait();
            y[s * 32 + lane] = buffer[s % stages][31 - lane];
            pipe.consumer_release();
        }
    else
        for (int s = 0; s < tiles; ++s) {
            pipe.consumer_wait();
            y[s * 32 + lane] = buffer[s % stages][31 - lane];
            pipe.consumer_release();
        }
}

template <bool WAITS>
__global__ void copies_of_group(const float* x, float* y, int n) {
    __shared__ float buffer[2][100];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, buffer[0], x, sizeof(float) * 100);
    cg::memcpy_async(block, buffer[1], 100, x + 100, 60);
    if (WAITS) cg::wait_prior<1>(block);
    else block.sync();
    for (int i = threadIdx.x; i < 100; i += blockDim.x) y[i] = buffer[0][99 - i];
    cg::wait(block);
    for (int i = threadIdx.x; i < 60; i += blockDim.x) y[100 + i] = buffer[1][59 - i];
}
"""
NAMES = [
    *(f"stages<{prior}>" for prior in (-1, 2, 3)),
    "uncommitted",
    *(f"{name}<{waits}>" for name in ("pipeline_of_thread", "copies_of_group") for waits in ("true", "false")),
    *(f"pipeline_of_block<Way::{way}>" for way in ("unified", "roles", "count")),
]
kernel = RawModule(code=CODE, name_expressions=NAMES).get_function


def test_stages(device):
    x, y = run(kernel("stages<2>"), device)
    assert torch.equal(y.view(-1, 64), x.view(-1, 64).flip(1))


@pytest.mark.parametrize("prior", [-1, 3])
def test_a_wait_that_is_missing_or_too_late_shows(prior):
    x, y = run(kernel(f"stages<{prior}>"), "cpu")
    assert not torch.equal(y.view(-1, 64), x.view(-1, 64).flip(1))


def test_a_copy_that_is_not_committed_does_not_count(device):
    x, y = run(kernel("uncommitted"), device)
    x, y = x.view(-1, 4), y.view(-1, 4)
    assert torch.equal(y[:64, :2], x[:64, :2])
    assert not y[:64, 2:].any()  # the last eight bytes of the first copies are zeros
    assert torch.equal(y[64:], x[64:])


@pytest.mark.parametrize(("call", "message"), [
    ("__pipeline_memcpy_async(s, x, 12);", "a size that is not 4, 8 or 16 bytes on line 4"),
    ("__pipeline_memcpy_async(s + 1, x, 8);", "a pointer that is not aligned to the size on line 4"),
])  # fmt: skip
def test_wrong_copies(call, message):
    code = "#include <cuda_pipeline.h>\n__global__ void k(const float* x, float* y, int n) {\n__shared__ float s[4];\n"
    code += f"{call}\n}}"
    with pytest.raises(LaunchError, match=message):
        run(RawKernel(code, "k"), "cpu", threads=1)


def test_pipeline_of_a_thread(device):
    x, y = run(kernel("pipeline_of_thread<true>"), device)
    assert torch.equal(x, y)


def test_pipeline_of_a_thread_without_its_wait():
    x, y = run(kernel("pipeline_of_thread<false>"), "cpu")
    assert not torch.equal(x, y)


@pytest.mark.parametrize("way", ["unified", "roles", "count"])
def test_pipeline_of_a_block(device, way):
    x, y = run(kernel(f"pipeline_of_block<Way::{way}>"), device, threads=32 if way == "unified" else 64)
    assert torch.equal(y.view(-1, 32), x.view(-1, 32).flip(1))


def test_copies_of_a_group(device):
    x, y = run(kernel("copies_of_group<true>"), device)
    assert torch.equal(y[:100], x[:100].flip(0))
    assert torch.equal(y[100:160], x[100:160].flip(0))
    assert (y[160:] == -1).all()


def test_copies_of_a_group_without_their_wait():
    x, y = run(kernel("copies_of_group<false>"), "cpu")
    assert not torch.equal(y[:100], x[:100].flip(0))
