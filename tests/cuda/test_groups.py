"""Cooperative groups: blocks and tiles."""

import numpy as np
import pytest
import torch
from cooperative import BEGIN, error_of, run

from kernels.cuda import CompileError, RawKernel, RawModule

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


CODES = {
    "block": (BLOCK, ["block"]),
    "tiles": (TILES, [f"tile<{n}>" for n in SIZES]),
}


@pytest.mark.parametrize("name", list(CODES))
def test_nvrtc(nvrtc, name):
    nvrtc(CODES[name][0], (), CODES[name][1])


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


def test_a_reduction_over_a_block_does_not_compile(compiling_device):
    code = BEGIN + "__global__ void k(int* x) { x[0] = cg::reduce(cg::this_thread_block(), 1, cg::plus<int>()); }"
    with pytest.raises(CompileError, match="cg::reduce|does not exclusively represent a tile"):
        RawKernel(code, "k")((1,), (32,), (torch.zeros(1, dtype=torch.int32, device=compiling_device),))
