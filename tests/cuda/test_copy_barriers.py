"""cuda::barrier: copies that arrive at it, and warps that hand over through it."""

import pytest
import torch
from one_block import run

from kernels.cuda import LaunchError, RawKernel, RawModule

pytestmark = pytest.mark.usefixtures("nvrtc_too")


CODE = """
#include <cooperative_groups.h>
#include <cuda/barrier>
using barrier = cuda::barrier<cuda::thread_scope_block>;

enum class Wait { both, apart, none };

template <Wait WAIT>
__global__ void copies(const float* x, float* y, int n) {
    __shared__ barrier arrived;
    __shared__ float buffer[64];
    auto block = cooperative_groups::this_thread_block();
    if (block.thread_rank() == 0) init(&arrived, block.size());
    block.sync();
    for (int s = 0; s < n / 64; ++s) {
        cuda::memcpy_async(block, buffer, x + s * 64, sizeof(float) * 64, arrived);
        if (WAIT == Wait::both) arrived.arrive_and_wait();
        else if (WAIT == Wait::apart) arrived.wait(arrived.arrive());
        else (void)arrived.arrive();
        y[s * 64 + threadIdx.x] = buffer[63 - threadIdx.x];
        block.sync();
    }
}

__global__ void hand_over(const float* x, float* y, int n) {
    __shared__ barrier full[2], empty[2];
    __shared__ float buffer[2][32];
    if (threadIdx.x < 2) { init(&full[threadIdx.x], 64); init(&empty[threadIdx.x], 64); }
    __syncthreads();
    const int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int s = 0; s < n / 32; ++s) {
            empty[s % 2].arrive_and_wait();
            buffer[s % 2][lane] = x[s * 32 + lane];
            (void)full[s % 2].arrive();
        }
    } else {
        (void)empty[0].arrive(); (void)empty[1].arrive();
        for (int s = 0; s < n / 32; ++s) {
            full[s % 2].arrive_and_wait();
            y[s * 32 + lane] = buffer[s % 2][31 - lane];
            (void)empty[s % 2].arrive();
        }
    }
}
"""
NAMES = ["hand_over", *(f"copies<Wait::{wait}>" for wait in ("both", "apart", "none"))]
kernel = RawModule(code=CODE, name_expressions=NAMES).get_function


@pytest.mark.parametrize("wait", ["both", "apart"])
def test_copies_that_a_barrier_waits_for(device, wait):
    x, y = run(kernel(f"copies<Wait::{wait}>"), device)
    assert torch.equal(y.view(-1, 64), x.view(-1, 64).flip(1))


def test_a_barrier_that_is_not_waited_for_shows():
    x, y = run(kernel("copies<Wait::none>"), "cpu")
    assert not torch.equal(y.view(-1, 64), x.view(-1, 64).flip(1))


def test_a_barrier_that_too_few_threads_reach():
    code = """
    #include <cuda/barrier>
    __global__ void k(const float* x, float* y, int n) {
        __shared__ cuda::barrier<cuda::thread_scope_block> bar;
        if (threadIdx.x == 0) init(&bar, blockDim.x);
        __syncthreads();
        if (threadIdx.x < 40) bar.arrive_and_wait();
    }"""
    with pytest.raises(
        LaunchError, match=r"a deadlock.*40 threads wait in cuda::barrier on line 7 of k.cu; 24 threads"
    ):
        run(RawKernel(code, "k"), "cpu")


def test_producer_and_consumer_warps_with_barriers(device):
    x, y = run(kernel("hand_over"), device)
    assert torch.equal(y.view(-1, 32), x.view(-1, 32).flip(1))
