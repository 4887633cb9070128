"""What a compiler makes of a source is seen as the source has it: copies, fills, and variables that no one gave a value."""

import pytest
import torch
from sources import trace

from kernels.cuda.cpu import compiler


def test_a_local_variable_of_no_value_holds_the_same_in_every_run():
    if not compiler.takes("-ftrivial-auto-var-init=pattern"):
        pytest.skip("this compiler cannot fill variables")
    code = """extern "C" __global__ void k(float* y, int n) {
        float sum;
        for (int i = 0; i < n; ++i) sum += y[i];
        y[threadIdx.x] = sum;
    }"""
    left = []
    for _ in range(2):
        y = torch.zeros(64)
        found = trace(code, "k", (1,), (64,), (y, 2))
        assert [(one.line, one.kind) for one in found.accesses] == [(3, "load"), (4, "store")]
        left.append(y)
    assert not (left[0].abs() < 1e30).any()  # or NaN
    assert torch.equal(*(one.view(torch.int32) for one in left))


def test_a_fill_of_a_known_size_is_a_write():
    code = """extern "C" __global__ void f(float* y) {
        __shared__ float bins[32];
        if (threadIdx.x == 0) memset(bins, 0, sizeof bins);
        __syncthreads();
        y[threadIdx.x] = bins[threadIdx.x];
    }"""
    found = trace(code, "f", (1,), (32,), (torch.ones(32),))
    assert not found.findings
    assert [(one.kind, one.bytes) for one in found.line(3)] == [("store", 128)]


@pytest.mark.parametrize("size", [12, 32, 100, 132])
def test_a_copy_of_a_known_size_is_seen(size):
    code = f'extern "C" __global__ void f(float* y, const float* x) {{ memcpy(y, x, {size}); }}'
    found = trace(code, "f", (1,), (1,), (torch.zeros(64), torch.ones(32)))
    assert found.totals["bytes_requested"] == 2 * size
    assert [one.address for one in found.findings] == ["x[32]"] * (size > 128)


@pytest.mark.parametrize("function", ["memcpy", "memmove"])
def test_a_copy_of_a_size_that_only_the_run_knows_is_seen(function):
    code = f'extern "C" __global__ void f(float* y, const float* x, int n) {{ {function}(y, x, n); }}'
    x, y = torch.ones(4), torch.zeros(8)
    inside, outside = (trace(code, "f", (1,), (1,), (y, x, size)) for size in (16, 20))
    assert inside.totals["bytes_requested"] == 32
    assert not inside.findings
    assert [one.kind for one in outside.findings] == ["out of bounds"]
    assert "x[4]" in str(outside.findings[0])


@pytest.mark.parametrize(("zeros", "read"), [(0, 16), (8, 8), (16, 0)])
def test_an_asynchronous_copy_reads_nothing_where_zeros_take_its_place(zeros, read):
    code = f"""#include <cuda_pipeline.h>
    extern "C" __global__ void f(float* y, const float* x) {{
        __shared__ float4 four;
        __pipeline_memcpy_async(&four, x, 16, {zeros});
        __pipeline_commit();
        __pipeline_wait_prior(0);
        *(float4*)y = four;
    }}"""
    y, x = torch.ones(4), torch.ones(4)[: read // 4]
    found = trace(code, "f", (1,), (1,), (y, x))
    assert not found.findings
    assert y.tolist() == [1.0] * (read // 4) + [0.0] * (zeros // 4)
    assert found.totals["bytes_requested"] == read + 16
