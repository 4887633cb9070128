"""What the host's compiler says, without what the learner has not written."""

import pytest
import torch

from kernels.cuda import CompileError, RawKernel, RawModule, gpu_compiler

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
    code = "__device__ float gamma[2] = {1, 2}, index = 3, random = 4;\n__constant__ int select = 5;\n"
    module = RawModule(code=code + "__global__ void k(float* x) { x[0] = gamma[1] + index + random + select; }")
    module.get_function("k")((1,), (1,), (x,))
    assert x.item() == 14
    assert module.get_global("gamma", x.device).view(torch.float32).tolist() == [1, 2]
