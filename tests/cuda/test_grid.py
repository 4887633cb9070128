"""Cooperative groups of the whole grid: blocks that wait for each other, and those that cannot."""

import pytest
import torch
from cooperative import BEGIN, error_of

from kernels.cuda import LaunchError, RawKernel, RawModule

GRID = (
    BEGIN
    + r"""
// Smooths x in place, over and over: each step needs all of the last.
__global__ void smooth(float* x, float* y, int n, int steps) {
    extern __shared__ float edge[];
    auto grid = cg::this_grid();
    __shared__ int mark;
    if (threadIdx.x == 0) mark = blockIdx.x * 3 + 1;
    edge[threadIdx.x] = float(grid.thread_rank());
    grid.sync();
    for (int step = 0; step < steps; ++step) {
        for (int i = grid.thread_rank(); i < n; i += grid.size())
            y[i] = (x[i > 0 ? i - 1 : 0] + 2 * x[i] + x[i < n - 1 ? i + 1 : n - 1]) / 4;
        grid.sync();
        float* t = x; x = y; y = t;
    }
    // A block's shared memory is its own.
    if (mark != int(blockIdx.x) * 3 + 1 || edge[threadIdx.x] != float(grid.thread_rank()) || !grid.is_valid()) x[0] = -1;
}"""
)


@pytest.mark.parametrize("os_threads", ["1", "3"])
@pytest.mark.parametrize("blocks, threads", [(1, 32), (7, 100), (108, 256)])
def test_grid_sync(device, monkeypatch, os_threads, blocks, threads):
    monkeypatch.setenv("KERNELS_CPU_THREADS", os_threads)
    x = torch.randint(0, 1 << 20, (5000,), generator=torch.Generator().manual_seed(0)).float().to(device)
    expected = x
    for _ in range(4):  # exact: sums of four numbers of 20 bits, divided by 4
        left, right = torch.cat([expected[:1], expected[:-1]]), torch.cat([expected[1:], expected[-1:]])
        expected = (left + 2 * expected + right) / 4
    kernel = RawKernel(GRID, "smooth", enable_cooperative_groups=True)
    for _ in range(10):  # a later launch finds the memory and the OS threads of those before
        again, y = x.clone(), torch.empty_like(x)
        kernel((blocks,), (threads,), (again, y, 5000, 4), shared_mem=threads * 4)
        torch.testing.assert_close(again, expected, rtol=1e-6, atol=0)


def test_a_grid_that_does_not_fit(device):
    x = torch.zeros(64, device=device)
    kernel = RawModule(code=GRID, enable_cooperative_groups=True).get_function("smooth")
    with pytest.raises(LaunchError, match="(?i)too.large"):
        kernel((132 * 8 * 32 + 1,), (256,), (x, x.clone(), 64, 1), shared_mem=1024)
    if device == "cpu":
        with pytest.raises(LaunchError, match="an H200 holds 1,056 of 256 threads"):
            kernel((132 * 8 + 1,), (256,), (x, x.clone(), 64, 1), shared_mem=1024)
        with pytest.raises(LaunchError, match="an H200 holds 528 of 32 threads"):
            kernel((529,), (32,), (x, x.clone(), 64, 1), shared_mem=48 * 1024 - 4)


def test_nvrtc(nvrtc):
    nvrtc(GRID, (), ["smooth"])


def test_grid_sync_without_a_cooperative_launch():
    message = error_of("cg::this_grid().sync();")
    assert "grid_group::sync on line 6 of k.cu needs a launch whose blocks are all resident together" in message
    assert "enable_cooperative_groups=True" in message


@pytest.mark.parametrize("os_threads", ["1", "2"])
def test_a_grid_barrier_that_a_block_does_not_reach(monkeypatch, os_threads):
    monkeypatch.setenv("KERNELS_CPU_THREADS", os_threads)
    message = error_of(
        "if (blockIdx.x == 1) return;\ncg::this_grid().sync();", grid=(5,), enable_cooperative_groups=True
    )
    assert "a barrier that not every block of the grid reaches, in block (0, 0, 0) of 64 threads" in message
    assert "64 threads wait in grid_group::sync on line 7 of k.cu" in message
    assert "So wait 4 blocks, and 1 block of 5 finished without" in message


def test_a_grid_barrier_that_a_thread_does_not_reach():
    message = error_of("if (threadIdx.x)\n cg::this_grid().sync();", enable_cooperative_groups=True)
    assert "63 threads wait in grid_group::sync on line 7 of k.cu; 1 thread has finished" in message
