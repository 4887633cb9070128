"""Indices past an array, and variables that a source declares in odd places: reported in terms of the array that was meant."""

import pytest
import torch
from sources import trace

from kernels import lens
from kernels.cuda import RawModule

_OVERRUNS = {
    "a[threadIdx.x + 1] = 1;": ("a[32]", "one past the end of 32"),
    "a[threadIdx.x * 1000] = 1;": ("a[1000]", "969 past the end of 32"),
    "y[threadIdx.x] = a[-1 - int(threadIdx.x)];": ("a[-1]", "one element before its beginning"),
    "float* p = a; p[threadIdx.x + 1] = 1;": ("a[32]", "one past the end of 32"),
    "float* p = a; y[0] = p[-100000];": ("a[-100000]", "100,000 elements before its beginning"),
    "atomicAdd(&a[threadIdx.x + 1], 1.0f);": ("a[32]", "one past the end of 32"),
    "atomicAdd(&a[threadIdx.x + 100000], 1.0f);": ("a[100000]", "99,969 past the end of 32"),
    "own[threadIdx.x + 1] = 1;": ("own[32]", "one past the end of 32"),
    "float* p = own; p[threadIdx.x + 1] = 1;": ("own[32]", "one past the end of 32"),
    "y[threadIdx.x] = w[threadIdx.x + 1];": ("w[32]", "one past the end of 32"),
    "e[threadIdx.x + 1] = 1;": ("e[32]", "one past the end of 32"),
}


@pytest.mark.parametrize("statement", _OVERRUNS)
def test_an_overrun_is_told_in_terms_of_its_array(statement):
    # Beside it, no array but those of another kernel, and where dynamic shared memory is.
    constant = "static __constant__ float w[32];" if "w[" in statement else "static __device__ float own[32];"
    code = f"""__global__ void other(float* y) {{ __shared__ float b[32]; b[threadIdx.x] = 1; *y = b[0]; }}
    extern "C" __global__ void k(float* y) {{
        __shared__ float a[32];
        extern __shared__ float d[];
        extern __shared__ float e[];
        {constant}
        a[threadIdx.x] = d[threadIdx.x] = 0;
        __syncthreads();
        {statement}
    }}"""
    (found,) = trace(code, "k", (1,), (32,), (torch.zeros(64),), 128).findings
    address, cause = _OVERRUNS[statement]
    assert (found.kind, found.lines, found.address) == ("out of bounds", (9,), address)
    assert cause in found.cause


def test_static_variables_of_functions_are_seen():
    code = """static __device__ int total;
    extern "C" __global__ void k(float* y) {
        static __device__ float written[32], own[32];
        written[threadIdx.x] = 1;
        own[threadIdx.x] += 1;
        if (threadIdx.x == 0) total += 1;
        __syncthreads();
        static __constant__ float weights[32] = {1, 2};
        y[threadIdx.x] = weights[threadIdx.x] + own[threadIdx.x];
    }"""
    module, y = RawModule(code=code), torch.zeros(32)
    for times in (1, 2):
        found = lens.trace(module.get_function("k"), (1,), (32,), (y,))
        assert y.tolist() == [1.0 + times, 2.0 + times, *[float(times)] * 30]
    module.get_function("k")((1,), (32,), (y,))
    assert y[2] == 3
    assert not found.findings
    assert [(one.line, one.kind, one.space, one.names) for one in found.accesses] == [
        (4, "store", "global", ("written",)),
        (5, "load", "global", ("own",)),
        (5, "store", "global", ("own",)),
        (6, "load", "global", ("total",)),
        (6, "store", "global", ("total",)),
        (9, "load", "constant", ("weights",)),
        (9, "load", "global", ("own",)),
        (9, "store", "global", ("y",)),
    ]


_PAST_AN_ARRAY = """extern "C" __global__ void k(float* y) {
    __shared__ float %s;
    float own[4];
    const int t = threadIdx.x;
    %s
    %s
    s[t] = 1;
    s[t + 32] = 1;
    %s
    y[t] = s[63 - t] + s[t];
    %s
}"""


@pytest.mark.parametrize(
    ("declared", "past"),
    [
        ("s[64]", "if (t == 5) s[64] = 1;"),
        ("s[64]", "own[t / 7] = y[t]; y[t] = own[1];"),
        ("before[64], s[64], after[64]", "s[t + 48] = 1;"),  # 16 lanes write into the next array
        ("before[64], s[64], after[64]", "if (t < 16) y[t] += s[t + 64];"),  # and read
    ],
)
def test_an_index_past_an_array_is_not_blamed_on_others(declared, past):
    fill, use = (
        ("before[t] = after[t] = 0;", "y[t] += before[31 - t] + after[31 - t];") if "," in declared else ("", "")
    )
    for barrier, others in (("__syncthreads();", []), ("", [("race", (8, 10))])):
        code = _PAST_AN_ARRAY % (declared, fill, past, barrier, use)
        found = trace(code, "k", (1,), (32,), (torch.zeros(64),)).findings
        assert {(one.kind, one.lines) for one in found} >= {("out of bounds", (6,)), *others}, found
        assert barrier == "" or len(found) == 1, found
