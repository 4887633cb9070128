"""Launches so long that what they do is looked at by another thread while they run on: nothing is lost, and all is in order."""

import pytest
import torch
from sources import trace

from kernels import lens
from kernels.cuda import RawModule

_BLOCKS, _N = 1024, 1024 * 256


def test_the_first_and_the_last_block_are_looked_at():
    code = """extern "C" __global__ void k(const float* x, float* y, int n, int last) {
        __shared__ float s[256];
        const int t = threadIdx.x, i = blockIdx.x * 256 + t;
        s[t] = x[i];
        if (blockIdx.x != last) __syncthreads();
        y[i] = s[t % 128];
        if (i == n - 1) y[n] = 1;
    }"""
    for last in (0, _BLOCKS - 1):
        found = trace(code, "k", (_BLOCKS,), (256,), (torch.ones(_N), torch.zeros(_N), _N, last))
        overrun, race = sorted(found.findings, key=lambda one: one.kind)
        assert (race.kind, race.lines, race.count) == ("race", (4, 6), 128), race
        assert race.block == (last, 0, 0)
        assert (overrun.kind, overrun.lines) == ("out of bounds", (7,)), overrun
        assert overrun.address.startswith(f"y[{_N}]")
        assert found.barriers == _BLOCKS - 1
        assert found.totals["global_load_requests"] == _N // 32
        assert found.totals["global_load_sectors"] == _N // 8
        assert found.totals["global_store_requests"] == _N // 32 + 1


def test_what_came_before_a_crash_is_known():
    code = """extern "C" __global__ void k(float* y, int last) {
        const int i = blockIdx.x * 256 + threadIdx.x;
        y[i] = i;
        if (i == 5) y[6] = 0;
        if (blockIdx.x == last && threadIdx.x == 77) *(float*)8 = 1;
    }"""
    one, other = (trace(code, "k", (_BLOCKS,), (256,), (torch.zeros(_N), _BLOCKS - 1)) for _ in range(2))
    assert "not there" in one.error
    assert {finding.kind: finding.lines for finding in one.findings} == {"race": (3, 4), "out of bounds": (5,)}
    assert (one.findings, one.totals) == (other.findings, other.totals)
    assert one.totals["global_store_requests"] >= (_BLOCKS - 1) * 8


def test_lanes_far_apart_are_counted_together():
    code = """extern "C" __global__ void k(const float* x, float* y, int n) {
        const int t = threadIdx.x;
        float sum = 0;
        if (t % 2)
            for (int i = 0; i < n; ++i) sum += x[i];
        else
            for (int i = 0; i < n; ++i) sum -= x[i];
        __syncthreads();
        y[t] = sum;
    }"""
    n = 30_000
    found = trace(code, "k", (1,), (64,), (torch.ones(n), torch.zeros(64), n))
    assert not found.findings and not found.error
    assert found.totals["global_load_requests"] == found.totals["global_load_sectors"] == 2 * 2 * n
    assert 0.5 < found.simt_efficiency < 0.51


def test_each_block_has_its_own_shared_memory():
    code = """#include <cooperative_groups.h>
    extern "C" __global__ void k(float* y, int rounds, int racing) {
        extern __shared__ float s[];
        const int t = threadIdx.x, b = blockIdx.x;
        for (int round = 0; round < rounds; ++round) {
            s[t * (b + 1)] = round;
            cooperative_groups::this_grid().sync();
            y[b * 64 + t] = s[t * (b + 1)];
        }
        if (b == racing) s[0] = t;
    }"""
    rounds, blocks = 100, 4
    kernel = RawModule(code=code, enable_cooperative_groups=True).get_function("k")

    def traced(racing, floats):
        return lens.trace(kernel, (blocks,), (64,), (torch.zeros(256), rounds, racing), 4 * floats)

    found = traced(blocks, 64 * blocks)
    assert not found.findings and not found.error
    ways = 1 + 2 + 1 + 4  # of strides 1 to 4
    assert found.totals["shared_store_wavefronts"] == found.totals["shared_load_wavefronts"] == 2 * rounds * ways
    for racing in range(blocks):
        assert {(one.kind, one.block) for one in traced(racing, 64 * blocks).findings} == {("race", (racing, 0, 0))}
    assert {(one.kind, one.block) for one in traced(blocks, 63 * blocks).findings} == {("out of bounds", (3, 0, 0))}


def test_much_is_known_of_no_warp_wholly():
    # In such an order nearly all threads have run when the first warp is complete.
    code = """extern "C" __global__ void k(const float* x, float* y) {
        const int t = threadIdx.x;
        float sum = 0;
        for (int i = 0; i < 100; ++i) sum += x[i + t];
        y[t % 1023] = sum + t;
    }"""
    for seed in (None, 1, 2):
        found = trace(code, "k", (2,), (1024,), (torch.ones(2048), torch.zeros(1024)), seed=seed)
        assert found.totals["global_load_requests"] == 2 * 32 * 100
        assert found.totals["global_store_requests"] == 2 * 32
        assert {(one.kind, one.lines) for one in found.findings} == {("race", (5, 5))}
        assert found.simt_efficiency == 1


@pytest.mark.parametrize(
    "spin", ["while (flag[0] == 0);", "while (atomicAdd((int*)flag, 0) == 0) for (int i = 0; i < 20; ++i) s += x[i];"]
)
@pytest.mark.parametrize("threads", [1, 32, 50])
def test_a_block_that_waits_for_another_lets_it_run(spin, threads):
    code = f"""extern "C" __global__ void k(const float* x, float* y, volatile int* flag) {{
        float s = 0;
        if (blockIdx.x == 0) {{
            {spin}
            y[threadIdx.x] = 1 + s;
        }} else {{ __threadfence(); atomicExch((int*)flag, 1); }}
    }}"""
    y = torch.zeros(threads)
    found = trace(code, "k", (2,), (threads,), (torch.zeros(20), y, torch.zeros(1, dtype=torch.int32)), seconds=20)
    assert not found.error and not found.findings and (y == 1).all()


def test_a_lane_whose_others_wait_for_it_may_be_far_ahead():
    code = """#include <cuda/pipeline>
    #include <cooperative_groups.h>
    extern "C" __global__ void k(const float* x, float* y, int n) {
        __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 1> state;
        __shared__ float s;
        const int t = threadIdx.x;
        auto block = cooperative_groups::this_thread_block();
        auto pipe = cuda::make_pipeline(block, &state, t ? cuda::pipeline_role::consumer : cuda::pipeline_role::producer);
        if (t != 0) {
            pipe.consumer_wait();
            y[t] = s;
            pipe.consumer_release();
        } else {
            pipe.producer_acquire();
            float sum = 0;
            for (int i = 0; i < n; ++i) sum += x[i];
            s = sum;
            pipe.producer_commit();
        }
    }"""
    n = 300_000
    y = torch.zeros(32)
    found = trace(code, "k", (1,), (32,), (torch.ones(n), y, n))
    assert not found.error and not found.findings and (y[1:] == n).all()
    assert found.totals["global_load_requests"] == n


def test_groups_of_a_warp_that_are_far_apart():
    """Four lanes that wait for each other alone run all of the loop before the next four: what is to be counted is much."""
    code = """#include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void k(float* y, int n, int without) {
        __shared__ float s[128];
        auto tile = cg::tiled_partition<4>(cg::this_thread_block());
        const int t = threadIdx.x, next = t - t % 4 + (t + 1) % 4;
        float a = t;
        for (int i = 0; i < n; ++i) {
            s[t] = a;
            if (i != without) tile.sync();
            a = s[next] + 1;
            tile.sync();
        }
        y[blockIdx.x * 128 + t] = a;
    }"""
    n = 8000  # of which nothing may be moved or looked for again and again
    for without in (-1, n - 5):
        y = torch.zeros(2, 128)
        found = trace(code, "k", (2,), (128,), (y, n, without))
        assert not found.error
        assert found.totals["shared_load_wavefronts"] == found.totals["shared_store_wavefronts"] == 8 * n
        if without < 0:
            assert not found.findings
            assert (y == n + torch.arange(128)).all()
        else:
            (race,) = found.findings
            assert (race.kind, race.lines, race.count) == ("race", (9, 11), 256), race


def test_many_wait_for_one_lock():
    code = """extern "C" __global__ void k(int* y, int* lock, int n) {
        for (bool done = false; !done;) {
            if (atomicCAS(lock, 0, 1) == 0) {
                FENCE
                for (int i = 0; i < n; ++i) y[i % 7] += 1;
                FENCE
                atomicExch(lock, 0);
                done = true;
            }
        }
    }"""
    n = 2800
    for fence in ("__threadfence();", ""):
        y, lock = torch.zeros(7, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
        found = trace(code.replace("FENCE", fence), "k", (2,), (50,), (y, lock, n))
        assert not found.error
        assert (y == 100 * n // 7).all()
        assert {(one.kind, one.lines) for one in found.findings} == (set() if fence else {("race", (5, 5))})
