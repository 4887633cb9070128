"""Cooperative groups: blocks, tiles, coalesced threads, partitions, reductions, scans and the grid."""

import numpy as np
import pytest
import torch

from kernels.cuda import CompileError, LaunchError, RawKernel, RawModule

BEGIN = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
"""


def run(kernel, device, threads, columns, *args, grid=(1,)):
    """What each thread writes to its row of `out`, the kernel's first parameter."""
    out = torch.full((int(np.prod(grid)) * int(np.prod(threads)), columns), -77, dtype=torch.int32, device=device)
    kernel(grid, threads, (out, *args))
    return out.cpu().numpy()


BLOCK = (
    BEGIN
    + r"""
__device__ int row(cg::thread_group g, int base) { g.sync(); return base + int(g.thread_rank()) * 10 + int(g.size() % 10); }
__global__ void block(int* out) {
    cg::thread_block block = cg::this_thread_block();
    auto grid = cg::this_grid();
    int* o = out + grid.thread_rank() * 12;
    __shared__ int s[512];
    s[block.thread_rank()] = block.thread_rank();
    block.sync();
    o[0] = s[block.size() - 1 - block.thread_rank()];
    o[1] = block.num_threads() + cg::group_size(block) + cg::thread_block::size();
    o[2] = block.group_index().y * 100 + block.thread_index().y * 10 + block.dim_threads().z + block.group_dim().y;
    o[3] = grid.num_threads() + grid.block_rank() * 1000 + grid.num_blocks() * 10000;
    o[4] = grid.dim_blocks().x + grid.block_index().y * 10 + grid.thread_index().y * 100;
    cg::sync(block);
    o[5] = row(block, 0);
    o[6] = row(cg::tiled_partition(block, 4), 1000);
    o[7] = row(cg::tiled_partition<16>(block), 2000);
    cg::thread_group g = cg::tiled_partition(block, 32);
    o[8] = row(cg::tiled_partition(g, 2), 3000);
    o[9] = cg::thread_rank(block) + cg::this_thread().size();
    int shared = 0;
    cg::invoke_one(block, [&] { shared = 5; });
    o[10] = shared; o[11] = block.thread_rank() == 0 ? 5 : 0;
}"""
)


def test_the_block_and_the_grid(device):
    got = run(RawKernel(BLOCK, "block"), device, (8, 4, 2), 12, grid=(2, 3))
    i = np.arange(64 * 6)
    rank, block = i % 64, i // 64
    assert np.array_equal(got[:, 0], 63 - rank)
    assert (got[:, 1] == 192).all()
    assert np.array_equal(got[:, 2], block // 2 * 100 + rank // 8 % 4 * 10 + 2 + 4)
    assert np.array_equal(got[:, 3], 384 + block * 1000 + 60000)
    assert np.array_equal(got[:, 4], 2 + block // 2 * 10 + (block // 2 * 4 + rank // 8 % 4) * 100)
    for column, base, size in ((5, 0, 64), (6, 1000, 4), (7, 2000, 16), (8, 3000, 2)):
        assert np.array_equal(got[:, column], base + rank % size * 10 + size % 10)
    assert np.array_equal(got[:, 9], rank + 1)
    assert np.array_equal(got[:, 10], got[:, 11])


TILES = (
    BEGIN
    + r"""
template <int N> __global__ void tile(int* out) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<N>(block);
    cg::thread_block_tile<N> same = tile;
    int i = block.thread_rank(), x = i * 7 % 31, equal = -1;
    int* o = out + i * 20;
    o[0] = tile.thread_rank() + 100 * tile.num_threads() + 100000 * same.size();
    o[1] = tile.meta_group_rank() + 1000 * same.meta_group_size();
    o[2] = tile.shfl(x, N > 32 ? N - 2 : (tile.thread_rank() + 1) % N);  // beyond a warp, one source for all
    o[3] = tile.any(x == 3) + 2 * tile.all(x < 31) + 4 * tile.all(x != 3);
    tile.sync();
    o[4] = cg::reduce(tile, x, cg::plus<int>());
    o[5] = cg::reduce(tile, x - 15, cg::less<int>()) + 100 * cg::reduce(tile, x, cg::greater<int>());
    o[6] = cg::reduce(tile, x, cg::bit_or<int>()) + 100 * cg::reduce(tile, x, cg::bit_and<int>());
    o[7] = cg::reduce(tile, x, cg::bit_xor<int>()) + 100 * cg::reduce(tile, i, [](int a, int b) { return a > b ? a : b; });
    o[8] = cg::inclusive_scan(tile, x);
    o[9] = cg::exclusive_scan(tile, x, cg::plus<int>());
    o[10] = cg::inclusive_scan(tile, x, cg::greater<int>());
    if constexpr (N <= 32) {
        o[11] = tile.shfl_up(x, 3); o[12] = tile.shfl_down(x, 3); o[13] = tile.shfl_xor(x, N / 2);
        o[14] = tile.ballot(x % 2); o[15] = tile.match_any(x % 3); o[16] = tile.match_all(tile.meta_group_rank(), equal);
        o[17] = equal;
        o[18] = cg::invoke_one_broadcast(tile, [&] { return x; });
        struct Pair { double a; int b; } pair = {x + 0.5, i};
        Pair other = tile.shfl(pair, 0);
        o[19] = int(other.a * 2) + 100 * other.b;
    }
}"""
)
SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
TILE_MODULE = RawModule(code=TILES, name_expressions=[f"tile<{n}>" for n in SIZES])


@pytest.mark.parametrize("n", SIZES)
def test_tiles(device, n):
    threads = max(n, 128)
    got = run(TILE_MODULE.get_function(f"tile<{n}>"), device, (threads,), 20)
    i = np.arange(threads)
    rank, tile = i % n, i // n
    x = (i * 7 % 31).astype(np.int32)
    rows = x.reshape(-1, n)

    def each(values):
        return np.repeat(np.asarray(values), n)

    def at(rank_of_source):
        return x[tile * n + rank_of_source]

    expected = {
        0: rank + 100 * n + 100000 * n,
        1: tile + 1000 * (threads // n),
        2: at(n - 2 if n > 32 else (rank + 1) % n),
        3: each((rows == 3).any(1) + 2 + 4 * (rows != 3).all(1)),
        4: each(rows.sum(1)),
        5: each(rows.min(1) - 15 + 100 * rows.max(1)),
        6: each(np.bitwise_or.reduce(rows, 1) + 100 * np.bitwise_and.reduce(rows, 1)),
        7: each(np.bitwise_xor.reduce(rows, 1) + 100 * i.reshape(-1, n).max(1)),
        8: rows.cumsum(1).ravel(),
        9: (rows.cumsum(1) - rows).ravel(),
        10: np.maximum.accumulate(rows, 1).ravel(),
    }
    if n <= 32:
        bits = 1 << np.arange(n, dtype=np.int64)
        as_int = lambda values, axis: values.sum(axis).astype(np.uint32).view(np.int32)  # noqa: E731
        same = rows[:, :, None] % 3 == rows[:, None, :] % 3
        expected |= {
            11: at(np.where(rank >= 3, rank - 3, rank)),
            12: at(np.where(rank + 3 < n, rank + 3, rank)),
            13: at(rank ^ n // 2),
            14: each(as_int(rows % 2 * bits, 1)),
            15: as_int(same * bits, 2).ravel(),
            16: np.full(threads, as_int(bits, 0)),
            17: np.ones(threads),
            18: at(np.zeros_like(i)),
            19: at(np.zeros_like(i)) * 2 + 1 + 100 * (tile * n),
        }  # fmt: skip
    for column, want in expected.items():
        assert np.array_equal(got[:, column], want), column
    if n > 32:
        assert (got[:, 11:] == -77).all()


LANES = (
    BEGIN
    + r"""
__global__ void lanes(int* out, const int* label) {
    int i = threadIdx.x, equal = -1;
    int* o = out + i * 20;
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    if (i % 5 < 3) {
        cg::coalesced_group g = cg::coalesced_threads();
        o[0] = g.size(); o[1] = g.thread_rank(); o[2] = g.meta_group_rank() + 10 * g.meta_group_size();
        o[3] = g.shfl(i, 2); o[4] = g.shfl_up(i, 1); o[5] = g.shfl_down(i, 1);
        o[6] = g.ballot(i % 2); o[7] = g.any(i == 50) + 2 * g.all(i != 50);
        o[8] = g.match_any(i % 4); o[9] = g.match_all(7, equal) + equal;
        o[10] = cg::reduce(g, i, cg::plus<int>()); o[11] = cg::exclusive_scan(g, 1);
        g.sync();
        auto three = cg::tiled_partition(g, 4);
        o[12] = three.size() * 100 + three.thread_rank() * 10 + cg::reduce(three, 1, cg::plus<int>());
    }
    warp.sync();
    auto same = cg::labeled_partition(warp, label[i]);
    o[13] = same.size(); o[14] = same.thread_rank(); o[15] = same.meta_group_rank() + 100 * same.meta_group_size();
    o[16] = cg::reduce(same, i, cg::plus<int>());
    auto half = cg::binary_partition(warp, i % 32 < 11);
    o[17] = half.size() + 100 * half.thread_rank(); o[18] = half.meta_group_rank() + 10 * half.meta_group_size();
    o[19] = cg::inclusive_scan(half, i, cg::plus<int>());
}"""
)


def test_coalesced_threads_and_partitions(device):
    label = torch.randint(0, 6, (64,), generator=torch.Generator().manual_seed(3), dtype=torch.int32)
    got = run(RawKernel(LANES, "lanes"), device, (64,), 20, label.to(device))
    i, label = np.arange(64), label.numpy()
    for warp in (i[:32], i[32:]):
        members = warp[warp % 5 < 3]
        packed = lambda chosen: sum(int(c) << r for r, c in enumerate(chosen))  # noqa: E731
        for rank, lane in enumerate(members):
            row = got[lane].tolist()
            others = members[rank // 4 * 4 : rank // 4 * 4 + 4]
            assert row[:3] == [len(members), rank, 10]
            assert row[3:6] == [members[2], members[max(rank - 1, 0)], members[min(rank + 1, len(members) - 1)]]
            assert row[6] == packed(members % 2)
            assert row[7] == (50 in members) + 2 * (50 not in members)
            assert row[8] == packed(members % 4 == lane % 4)
            assert row[9] == 2 ** len(members)
            assert row[10:13] == [members.sum(), rank, len(others) * 100 + rank % 4 * 10 + len(others)]
        assert (got[warp[warp % 5 >= 3], :13] == -77).all()
        leaders = [warp[label[warp] == value][0] for value in dict.fromkeys(label[warp])]
        for lane in warp:
            same = warp[label[warp] == label[lane]]
            half = warp[(warp % 32 < 11) == (lane % 32 < 11)]
            assert got[lane, 13:].tolist() == [
                len(same), (same < lane).sum(), leaders.index(same[0]) + 100 * len(leaders), same.sum(),
                len(half) + 100 * (half < lane).sum(), (lane % 32 < 11) + 20, half[half <= lane].sum(),
            ]  # fmt: skip


def test_types_of_reductions_and_scans(device):
    code = (
        BEGIN
        + r"""
    #include <cuda_fp16.h>
    struct Best { float value; int index; };
    __global__ void types(const float* x, float* out, long long* wide) {
        auto tile = cg::tiled_partition<32>(cg::this_thread_block());
        int i = threadIdx.x;
        out[i] = cg::reduce(tile, x[i], cg::plus<float>());
        out[i + 64] = __half2float(cg::reduce(tile, __float2half(x[i]), cg::less<half>()));
        Best best = cg::reduce(tile, Best{x[i], i}, [](Best a, Best b) { return b.value > a.value ? b : a; });
        out[i + 128] = float(best.index);
        out[i + 192] = float(cg::reduce(tile, double(x[i]), cg::plus<double>()));
        wide[i] = cg::inclusive_scan(tile, (1ll << 40) + i);
        wide[i + 64] = cg::exclusive_scan(tile, (unsigned long long)i << 33);
    }"""
    )
    x = torch.randn(64, generator=torch.Generator().manual_seed(5)).half().float().to(device)
    out, wide = torch.empty(4, 64, device=device), torch.empty(2, 64, dtype=torch.int64, device=device)
    RawKernel(code, "types")((1,), (64,), (x, out, wide))
    rows = x.view(2, 32)
    torch.testing.assert_close(out[0], rows.sum(1).repeat_interleave(32), rtol=1e-5, atol=1e-5)
    assert torch.equal(out[1], rows.min(1).values.repeat_interleave(32))
    assert torch.equal(out[2], (rows.argmax(1) + torch.tensor([0, 32], device=device)).repeat_interleave(32).float())
    torch.testing.assert_close(out[3], rows.double().sum(1).repeat_interleave(32).float())
    i = torch.arange(64, device=device).view(2, 32)
    assert torch.equal(wide[0].view(2, 32), ((1 << 40) + i).cumsum(1))
    assert torch.equal(wide[1].view(2, 32), (i << 33).cumsum(1) - (i << 33))


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
@pytest.mark.parametrize("blocks, threads", [(1, 32), (7, 100), (132, 256)])
def test_grid_sync(device, monkeypatch, os_threads, blocks, threads):
    monkeypatch.setenv("KERNELS_CPU_THREADS", os_threads)
    x = torch.randint(0, 1 << 20, (5000,), generator=torch.Generator().manual_seed(0)).float().to(device)
    expected = x
    for _ in range(4):  # exact: sums of four numbers of 20 bits, divided by 4
        left, right = torch.cat([expected[:1], expected[:-1]]), torch.cat([expected[1:], expected[-1:]])
        expected = (left + 2 * expected + right) / 4
    y = torch.empty_like(x)
    kernel = RawKernel(GRID, "smooth", enable_cooperative_groups=True)
    kernel((blocks,), (threads,), (x, y, 5000, 4), shared_mem=threads * 4)
    torch.testing.assert_close(x, expected, rtol=1e-6, atol=0)


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


CODES = {
    "block": (BLOCK, ["block"]),
    "tiles": (TILES, [f"tile<{n}>" for n in SIZES]),
    "lanes": (LANES, ["lanes"]),
    "grid": (GRID, ["smooth"]),
}


@pytest.mark.parametrize("name", list(CODES))
def test_nvrtc(nvrtc, name):
    nvrtc(CODES[name][0], (), CODES[name][1])


def error_of(body, block=(64,), grid=(2,), **options):
    code = BEGIN.strip().replace("\n", " \n") + f"\n__global__ void k(int* x) {{\n{body}\n}}"
    with pytest.raises(LaunchError) as error:
        RawKernel(code, "k", **options)(grid, block, (torch.zeros(64, dtype=torch.int32),))
    return str(error.value)


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


@pytest.mark.parametrize("n", [32, 64])
def test_a_tile_whose_threads_do_not_all_come(n):
    message = error_of(f"auto t = cg::tiled_partition<{n}>(cg::this_thread_block());\nif (threadIdx.x < 20) t.sync();"
                       "\nelse __syncthreads();", block=(64,))  # fmt: skip
    assert "20 threads wait in sync on line 7 of k.cu; 44 threads wait in __syncthreads on line 8" in message


def test_a_shuffle_beyond_a_warp_from_different_ranks():
    body = "auto t = cg::tiled_partition<64>(cg::this_thread_block());\nx[0] = t.shfl(1, t.thread_rank() ^ 1);"
    message = error_of(body)
    assert "its threads ask for different ranks, and a GPU hangs on line 7" in message


def test_a_reduction_with_threads_that_have_finished():
    body = "auto t = cg::tiled_partition<8>(cg::this_thread_block());\nif (threadIdx.x == 5) return;\n"
    message = error_of(body + "x[0] = cg::reduce(t, 1, cg::plus<int>());")
    assert "reduce in a group with threads that have finished on line 8 of k.cu in block (0, 0, 0), thread" in message
    body = "auto t = cg::tiled_partition<64>(cg::this_thread_block());\nx[0] = cg::reduce(t, 1, cg::plus<int>());"
    assert "reduce in a group with threads that have finished on line 7" in error_of(body, block=(40,))


def test_a_reduction_over_a_block_does_not_compile(device):
    code = BEGIN + "__global__ void k(int* x) { x[0] = cg::reduce(cg::this_thread_block(), 1, cg::plus<int>()); }"
    with pytest.raises(CompileError):
        RawKernel(code, "k")((1,), (32,), (torch.zeros(1, dtype=torch.int32, device=device),))
