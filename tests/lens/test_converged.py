"""Lanes of a warp that take the same steps are looked at together, and their consecutive words as one row: with findings as
if each had been looked at alone."""

import pytest
import torch
from sources import trace

# Statements of a thread t, of 64, on lines 4 and 5, and how what is found on line 5 is called; None: nothing is.
_CASES = {
    # A row of global memory, by two blocks or two warps.
    "int k = t;\ny[k] = b;": "race",
    "int k = t;\ny[k] = 1;": None,
    "int k = lane;\ny[64 * b + k] = t;": "race",
    "int k = lane;\ny[64 * b + k] = k;": None,
    "int k = 64 * b + lane;\nw[k] = make_float4(0, 1, 2, lane);": None,
    "int k = 64 * b + lane;\nw[k] = make_float4(0, 1, 2, t);": "race",
    "y[512 + 64 * b + t] = y[64 * b + t];\nif (t < 32) y[64 * b + t] = 1;": None,
    "y[512 + 64 * b + t] = y[lane + 64 * b];\nif (t < 32) y[lane + 64 * b] = 1;": "race",
    "y[512 + 64 * b + t] = y[lane + 64 * b]; __syncthreads();\nif (t < 32) y[lane + 64 * b] = 1;": None,
    "y[512 + 64 * b + t] = y[lane]; __syncthreads();\nif (t < 32 && b) y[lane] = 1;": "race",
    # A row of shared memory: each lane's own, another's, and another's that was waited for.
    "s[t] = t;\ny[64 * b + t] = s[t];": None,
    "s[t] = t;\ny[64 * b + t] = s[t ^ 1];": "race",
    "s[t] = t; __syncwarp();\ny[64 * b + t] = s[t ^ 1];": None,
    "s[t] = t; __syncwarp();\ny[64 * b + t] = s[63 - t];": "race",
    "s[t] = t; __syncthreads();\ny[64 * b + t] = s[63 - t];": None,
    "y[64 * b + t] = lane ? 0 : 1;\ny[64 * b + t] = s[t];": "uninitialised read",
    "if (lane < 16) s[t] = t; __syncthreads();\ny[64 * b + t] = s[t];": "uninitialised read",
    # Rows of which a lane has one word, or four.
    "v[t] = make_float4(0, 1, 2, 3);\nw[64 * b + t] = v[t];": None,
    "v[t] = make_float4(0, 1, 2, 3);\ny[64 * b + t] = s[t / 32 * 128 + lane];": "race",
    "v[t] = make_float4(0, 1, 2, 3); __syncwarp();\ny[64 * b + t] = s[t / 32 * 128 + lane];": None,
    "for (int i = 0; i < 4; ++i) s[64 * i + t] = t;\nw[64 * b + t] = v[t];": "race",
    "for (int i = 0; i < 4; ++i) s[64 * i + t] = t; __syncthreads();\nw[64 * b + t] = v[t];": None,
    # So long that a lane waits for the others on its way; lanes that go different ways, and so far apart.
    "s[t] = 0; for (int i = 0; i < 400; ++i) s[t] += i;\ny[64 * b + t] = s[t ^ 1];": "race",
    "s[t] = 0; for (int i = 0; i < 400; ++i) s[t] += i; __syncthreads();\ny[64 * b + t] = s[t ^ 1];": None,
    "s[t] = 0; for (int i = 0; i < 40 * t; ++i) s[t] += i; __syncthreads();\ny[64 * b + t] = s[t ^ 1];": None,
    "s[t] = 0; for (int i = 0; i < 400 * (t % 3 == 0); ++i) s[t] += i;\nif (t % 3 == 0) s[t + 1] = 1;": "race",
    # Atomics and fences say what came first, also in the middle of steps that are taken together.
    "y[256 + 64 * b + t] = 1; __threadfence();\nif (atomicAdd(c, 1) == 127) y[0] = y[256] + y[383];": None,
    "y[256 + 64 * b + t] = 1;\nif (atomicAdd(c, 1) == 127) y[0] = y[256] + y[383];": "race",
}


@pytest.mark.parametrize("statements", _CASES)
def test_findings_are_as_of_lanes_alone(statements):
    code = f"""extern "C" __global__ void k(float* y, float4* w, int* c) {{
        __shared__ __align__(128) float s[256];
        const int t = threadIdx.x, b = blockIdx.x, lane = t % 32; float4* v = (float4*)s;
        {statements}
    }}"""
    args = torch.zeros(1024), torch.zeros(1024), torch.zeros(1, dtype=torch.int32)
    for options in ({}, {"seed": 1}):
        found = trace(code, "k", (2,), (64,), args, **options)
        assert not found.error
        expected = _CASES[statements]
        assert {one.kind for one in found.findings} == ({expected} if expected else set()), found.findings
        assert all(5 in one.lines for one in found.findings), found.findings
        args[2].zero_()


def test_every_lane_that_reads_too_early_is_counted():
    code = """extern "C" __global__ void k(float* y) {
        __shared__ float s[64];
        s[threadIdx.x] = 1;
        y[threadIdx.x] = s[0];
    }"""
    (found,) = trace(code, "k", (1,), (64,), (torch.zeros(64),)).findings
    assert found.kind == "race" and found.count == 63


def test_the_value_of_a_write_is_what_its_lane_left():
    # The second warp leaves what the first has left in between, which is not what is there at the end.
    code = """extern "C" __global__ void k(float* y) {
        const int t = threadIdx.x;
        y[t % 32] = t < 32;
        if (t < 32) y[t] = 0;
    }"""
    assert not trace(code, "k", (1,), (64,), (torch.zeros(32),)).findings
    (found,) = trace(code.replace("= 0;", "= 2;"), "k", (1,), (64,), (torch.zeros(32),)).findings
    assert found.kind == "race"


@pytest.mark.parametrize("seed", [1, 5])
def test_what_an_atomic_orders_is_known_whoever_runs_when(seed):
    # In these orders all lanes of other warps have read before the last of the first runs.
    code = """extern "C" __global__ void k(float* y, int* c) {
        const int t = threadIdx.x;
        if (t < 8) { y[t] = 1; __threadfence(); atomicAdd(c, 1); }
        else if (t >= 32 && atomicAdd(c, 0) == 8) y[t] = y[t % 8];
    }"""
    args = torch.zeros(1024), torch.zeros(1, dtype=torch.int32)
    assert not trace(code, "k", (1,), (1024,), args, seed=seed).findings
    assert args[0].sum() > 8


def test_counters_are_the_same_in_any_order_of_threads():
    code = """extern "C" __global__ void k(const float* x, float* y, int n) {
        __shared__ float s[33 * 32];
        const int t = threadIdx.x, lane = t % 32, warp = t / 32;
        for (int i = t; i < n; i += 256) s[i % 32 * 33 + i / 32 % 32] = x[i];
        __syncthreads();
        float sum = 0;
        for (int i = 0; i < 40 + lane % 2; ++i) sum += s[lane * 33 + (i + warp) % 32];
        for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
        if (lane == 0) atomicAdd(&y[warp % 2], sum);
        if (t >= 200) return;
        y[2 + t] = sum;
    }"""
    traces = [
        trace(code, "k", (2,), (256,), (torch.ones(1024), torch.zeros(256), 1024), **options)
        for options in ({}, {"seed": 1}, {"seed": 2})
    ]
    first, *others = [(one.totals, one.simt_efficiency) for one in traces]
    assert all(other == first for other in others)
