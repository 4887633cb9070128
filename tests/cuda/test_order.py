"""kernels.cuda.order: what a kernel leaves to chance differs between seeds, and never between runs of one seed.

Every test that takes `device` also runs under two seeds (conftest.py), so that all of the suite's kernels do.
"""

import pytest
import torch

from kernels.cuda import LaunchError, RawKernel, order
from kernels.cuda.order import first_and_last_block

STARTED = r"""
__global__ void started(int* blocks, int* threads) {
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int turn = atomicAdd(blocks, 1);
    blocks[1 + turn] = block;
    threads[turn] = thread;
}"""


def started(grid, block, seed=None):
    """The blocks and threads in the order in which they started."""
    total = torch.Size(grid).numel() * torch.Size(block).numel()
    blocks, threads = torch.zeros(1 + total, dtype=torch.int32), torch.zeros(total, dtype=torch.int32)
    kernel = RawKernel(STARTED, "started")
    if seed is None:
        kernel(grid, block, (blocks, threads))
    else:
        with order(seed):
            kernel(grid, block, (blocks, threads))
    return list(zip(blocks[1:].tolist(), threads.tolist(), strict=True))


@pytest.mark.parametrize("grid, block", [((1,), (64,)), ((7, 3), (5, 2, 3)), ((100,), (1,)), ((1, 1, 65), (33,))])
def test_every_thread_starts_once_in_an_order_of_the_seed(grid, block):
    everyone = {(b, t) for b in range(torch.Size(grid).numel()) for t in range(torch.Size(block).numel())}
    seen = []
    for seed in (0, 1, 2, 2**64 - 1):
        these = started(grid, block, seed)
        assert set(these) == everyone and len(these) == len(everyone)
        assert these == started(grid, block, seed)
        assert these not in seen and these != sorted(these)
        seen.append(these)


def test_without_a_seed_everything_starts_by_number(monkeypatch):
    monkeypatch.setenv("KERNELS_CPU_THREADS", "1")
    these = started((5,), (40,))
    assert these == sorted(these)


def test_a_missing_barrier_shows():
    code = r"""__global__ void reverse(const int* x, int* y) {
        __shared__ int s[64];
        s[threadIdx.x] = x[threadIdx.x];
        BARRIER
        y[threadIdx.x] = s[threadIdx.x / 2];
    }"""
    x = torch.arange(1, 65, dtype=torch.int32)
    wrong, right = (RawKernel(code.replace("BARRIER", text), "reverse") for text in ("", "__syncthreads();"))

    def result(kernel):
        y = torch.zeros(64, dtype=torch.int32)
        kernel((1,), (64,), (x, y))
        return torch.equal(y, x[torch.arange(64) // 2])

    assert result(wrong)  # by chance
    for seed in range(5):
        with order(seed):
            assert not result(wrong)
            assert result(right)


def test_a_kernel_that_counts_on_the_order_of_blocks_shows(monkeypatch):
    monkeypatch.setenv("KERNELS_CPU_THREADS", "1")
    code = (
        """__global__ void sums(int* x) { if (threadIdx.x == 0 && blockIdx.x) x[blockIdx.x] += x[blockIdx.x - 1]; }"""
    )
    kernel, right = RawKernel(code, "sums"), torch.ones(50, dtype=torch.int32).cumsum(0).int()

    def result():
        x = torch.ones(50, dtype=torch.int32)
        kernel((50,), (32,), (x,))
        return torch.equal(x, right)

    assert result()
    for seed in range(5):
        with order(seed):
            assert not result()


def test_blocks_take_turns_at_barriers():
    """Not only the order of starting is random: blocks are in flight together, as on a GPU."""
    code = r"""__global__ void turns(int* log) {
        __shared__ int mine;
        if (threadIdx.x == 0) mine = blockIdx.x;
        for (int i = 0; i < 40; ++i) {
            __syncthreads();
            if (threadIdx.x == 0) log[1 + atomicAdd(log, 1)] = mine;
        }
    }"""
    log = torch.zeros(1 + 40 * 6, dtype=torch.int32)
    with order(3):
        RawKernel(code, "turns")((6,), (32,), (log,))
    changes = (log[2:] != log[1:-1]).sum().item()
    assert changes > 10
    assert torch.equal(torch.bincount(log[1:]), torch.full((6,), 40))


def test_waits_for_blocks_that_start_later_end():
    code = r"""__global__ void chained(int* x) {
        if (threadIdx.x == 0) {
            while (atomicAdd(x, 0) != int(blockIdx.x)) ;
            x[1 + blockIdx.x] = blockIdx.x * 2;
            __threadfence();
        }
        __syncthreads();
        if (threadIdx.x == 31) atomicAdd(x, 1);
    }"""
    for seed in range(4):
        x = torch.zeros(41, dtype=torch.int32)
        with order(seed):
            RawKernel(code, "chained")((40,), (32,), (x,))
        assert x.tolist() == [40, *range(0, 80, 2)]


def test_errors_are_found_in_any_order():
    code = "__global__ void k(int* x) {\n if (threadIdx.x < 20) __syncthreads();\n}"
    for seed in range(3):
        with (
            order(seed),
            pytest.raises(LaunchError, match="20 threads wait in __syncthreads on line 2 of k.cu; 44 threads"),
        ):
            RawKernel(code, "k")((2,), (64,), (torch.zeros(1, dtype=torch.int32),))


def test_the_order_ends_with_its_block_and_they_nest():
    a, b = started((20,), (1,), 7), started((20,), (1,), 8)
    with order(7):
        with order(8):
            assert started((20,), (1,)) == b
        assert started((20,), (1,)) == a
        with pytest.raises(KeyError), order(8):
            raise KeyError
        assert started((20,), (1,)) == a


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, "1", None, True])
def test_a_seed_that_is_none(seed):
    with pytest.raises(ValueError, match="seed must be an int from 0"), order(seed):
        pass


def test_a_seed_changes_nothing_on_a_gpu():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU: torch.cuda is not available")
    x = torch.zeros(64, dtype=torch.int32, device="cuda")
    with order(1):
        RawKernel("__global__ void k(int* x) { x[threadIdx.x] = threadIdx.x; }", "k")((1,), (64,), (x,))
    assert torch.equal(x, torch.arange(64, dtype=torch.int32, device="cuda"))


def test_of_a_large_grid_the_first_and_the_last_block():
    kernel, blocks = RawKernel(STARTED, "started"), torch.zeros(5, dtype=torch.int32)
    with first_and_last_block():
        kernel((1 << 20, 3, 5), (1,), (blocks, torch.zeros(4, dtype=torch.int32)))
        assert blocks[:3].sort().values.tolist() == [0, 2, 15 * (1 << 20) - 1]
        with order(1):
            kernel((1 << 20, 3, 5), (1,), (blocks.zero_(), torch.zeros(4, dtype=torch.int32)))
        assert blocks[:3].sort().values.tolist() == [0, 2, 15 * (1 << 20) - 1]
        kernel((1,), (1,), (blocks.zero_(), torch.zeros(4, dtype=torch.int32)))
        assert blocks.tolist() == [1, 0, 0, 0, 0]
    kernel((3,), (1,), (blocks.zero_(), torch.zeros(4, dtype=torch.int32)))
    assert int(blocks[0]) == 3
