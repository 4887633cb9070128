"""What the host's compiler says, without what the learner has not written."""

import re

import pytest
import torch

from kernels.cuda import CompileError, RawKernel, RawModule, gpu_compiler
from kernels.cuda.cpu import compiler

SAID = {
    "a kernel with a result": (
        "__global__ int k(float* x) { return 1; }",
        r"the kernel k returns int: a kernel returns void",
    ),
    "a stream": (
        "#include <iostream>\n__global__ void k(float* x) { std::cout << x[0]; }",
        r"such as std::cout.*printf",
    ),
    "a throw": (
        "__global__ void k(float* x) {\n throw 1; }",
        r"k.cu:2:\d+: error: a kernel cannot throw.*\n    2 \|  throw 1",
    ),
    "a function without a body": (
        "__device__ float f(float);\n__global__ void k(float* x) {\n x[0] = f(x[0]); }",
        r"f is decl",
    ),
    "a template": ("template <class T> __global__ void k(T* x) { x[0] = 1; }", r"k is a template: .* such as k<float>"),
    "a header's assertion": (
        "__global__ void k(float* x) {\n x[0] = *__shfl_sync(0xffffffff, x, 1); }",
        r"k.cu:2:\d+: error: a shuffle moves",
    ),
    "a header's function": (
        "__global__ void k(float* x) {\n atomicAdd(x[0], 1); }",
        r"k.cu:2:\d+: error: no matching .*atomicAdd",
    ),
    "a name of CUDA": (
        "struct S { int n; };\n__global__ void k(float* x) {\n int blockDim = 4; x[0] = blockDim; }",
        r"k.cu:3: error: blockDim is CUDA's own name.*\n    3 \|  int blockDim",
    ),
    "a member by a name of CUDA": (
        "struct S { dim3 threadIdx; };\n__global__ void k(float* x) {\n S s; x[0] = s.threadIdx.x; }",
        r"k.cu:1: error: threadIdx is CUDA's own name.*\n    1 \| struct S",
    ),
    "a parameter by a name of CUDA": (
        "__device__ int f(uint3 blockIdx) {\n return blockIdx.x; }\n__global__ void k(float* x) { x[0] = 1; }",
        r"k.cu:1: error: blockIdx is CUDA's own name.*\n    1 \| __device__",
    ),
    "a missing brace": ("__global__ void k(float* x) {\n x[0] = 1;", r"k.cu"),
}


@pytest.mark.parametrize("what", SAID)
def test_words(what, monkeypatch):
    monkeypatch.setattr(gpu_compiler, "is_installed", lambda: False)
    code, words = SAID[what]
    with pytest.raises(CompileError, match=f"(?s){words}") as caught:
        RawKernel(code, "k")((1,), (1,), (torch.zeros(1),))
    message = str(caught.value)
    for internal in ("kernels::", "<kernels>", "<stdin>", "/usr/bin/ld", "collect2", "/include/", "self."):
        assert internal not in message


def test_a_reference_is_passed_as_a_pointer(device):
    x, y = torch.ones(4, device=device), torch.zeros(1, device=device)
    RawKernel("__global__ void k(const float& x, int n, float& y) { y = x + n; }", "k")((1,), (1,), (x, 7, y))
    assert y.item() == 8


def test_names_that_the_c_library_has_and_a_gpu_has_not(device):
    x = torch.zeros(1, device=device)
    code = """__device__ float gamma[2] = {1, 2}, index = 3, random = 4;
    __constant__ int select = 5, time = 6;
    __device__ float div[1] = {2};
    __device__ int remove = 7;
    __global__ void k(float* x) { x[0] = gamma[1] + index + random + select + time + div[0] + remove; }"""
    module = RawModule(code=code)
    module.get_function("k")((1,), (1,), (x,))
    assert x.item() == 29
    assert module.get_global("gamma", x.device).view(torch.float32).tolist() == [1, 2]
    assert module.get_global("time", x.device).view(torch.int32).tolist() == [6]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "float sum;\nfor (int i = 0; i < n; ++i)\nsum += x[i];\nx[0] = sum;",
            r"k.cu:4: warning: sum is used before it has",
        ),
        (
            "float s[4], m;\nfor (int i = 0; i < 4; ++i)\ns[i] += x[i];\nx[n] = s[n];",
            "k.cu:4: warning: s is used before",
        ),
        (
            'printf("%d", x[0]);',
            "k.cu:2: warning: format .*type .int.,? but .*argument.* has type .(double|float)",
        ),
    ],
)
def test_a_warning_is_shown_though_the_kernel_is_in_the_cache(body, words, capfd):
    if "float s[4]" in body and compiler.is_clang():
        pytest.skip("clang does not warn of an array without values")
    for _ in range(2):
        RawKernel(f"__global__ void k(float* x, int n) {{\n{body}\n}}", "k")((1,), (1,), (torch.zeros(4), 0))
        assert re.search(words, capfd.readouterr().err)


@pytest.mark.parametrize(
    "body",
    [
        "float m;\nif (threadIdx.x < n) m = x[0];\n__syncthreads();\nif (threadIdx.x < n) x[0] = m;",
        "float sum;\nsum = 0;\nfor (int i = 0; i < n; ++i) sum += x[i];\nx[0] = sum;",
        'unsigned long long i = n; printf("%llu %lu %f\\n", i, i, x[0]);',
    ],
)
def test_what_may_be_right_has_no_warning(body, capfd):
    RawKernel(f"__global__ void k(float* x, int n) {{\n{body}\n}}", "k")((1,), (1,), (torch.zeros(4), 1))
    assert capfd.readouterr().err == ""


def test_a_parameter_by_the_name_of_a_type():
    x = torch.zeros(64)
    code = "__global__ void k(float* x, int dim3, int uint3) { x[threadIdx.x] = blockDim.x + dim3 + uint3; }"
    RawKernel(code, "k")((1,), (64,), (x, 1, 2))
    assert x.eq(67).all()


def test_what_is_kept_is_the_same_whichever_kernel_is_asked_for_first():
    code = "__global__ void a(float* x) { x[0] = 1; }\n__global__ void b(float* x) { x[0] = 2; }"
    asked = []
    for first in "ab":
        RawModule(code=code).first_that_compiles(first, asked.append)
        RawModule(code=code, name_expressions=[first]).first_that_compiles(first, asked.append)
    assert {one.names for one in asked} == {("a", "b")}
