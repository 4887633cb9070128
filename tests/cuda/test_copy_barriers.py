"""cuda::barrier: copies that arrive at it, and warps that hand over through it."""

import pytest
import torch

from kernels.cuda import LaunchError, RawKernel

pytestmark = pytest.mark.usefixtures("nvrtc_too")


def run(code, device, threads=64, n=64 * 8):
    """Runs k(const float* x, float* y, int n) over one block; x is 1, 2, …, and y is filled with -1."""
    x = torch.arange(1.0, n + 1, device=device)
    y = torch.full((n,), -1.0, device=device)
    RawKernel(code, "k")((1,), (threads,), (x, y, n))
    return x.cpu(), y.cpu()


BARRIER = """
#include <cooperative_groups.h>
#include <cuda/barrier>
__global__ void k(const float* x, float* y, int n) {
    __shared__ cuda::barrier<cuda::thread_scope_block> arrived;
    __shared__ float buffer[64];
    auto block = cooperative_groups::this_thread_block();
    if (block.thread_rank() == 0) init(&arrived, block.size());
    block.sync();
    for (int s = 0; s < n / 64; ++s) {
        cuda::memcpy_async(block, buffer, x + s * 64, sizeof(float) * 64, arrived);
        WAIT
        y[s * 64 + threadIdx.x] = buffer[63 - threadIdx.x];
        block.sync();
    }
}"""


@pytest.mark.parametrize("wait", ["arrived.arrive_and_wait();", "arrived.wait(arrived.arrive());"])
def test_copies_that_a_barrier_waits_for(device, wait):
    x, y = run(BARRIER.replace("WAIT", wait), device)
    assert torch.equal(y.view(-1, 64), x.view(-1, 64).flip(1))


def test_a_barrier_that_is_not_waited_for_shows():
    x, y = run(BARRIER.replace("WAIT", "(void)arrived.arrive();"), "cpu")
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
        run(code, "cpu")


def test_producer_and_consumer_warps_with_barriers(device):
    code = """
    #include <cuda/barrier>
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __global__ void k(const float* x, float* y, int n) {
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
    }"""
    x, y = run(code, device)
    assert torch.equal(y.view(-1, 32), x.view(-1, 32).flip(1))
