"""What a CPU cannot run is refused by name and line, with what to do instead, and nothing else is said."""

import re

import pytest
import torch

from kernels.cuda import CompileError, RawKernel

REFUSED = {
    'asm volatile("mov.u32 %0, %laneid;" : "=r"(x[0]));': "inline PTX runs on a GPU alone",
    "k<<<1, 1>>>(x);": "a kernel is launched from Python",
    "cuda::ptx::fence_proxy_async();": "cuda::ptx and cuda::device run on a GPU alone",
    "cudaTextureObject_t texture;": "textures and surfaces run on a GPU alone",
    "\n#include <curand_kernel.h>\n": "curand_kernel.h runs on a GPU alone: draw numbers by torch.rand",
    "\n#include <cub/cub.cuh>\n": "cub/cub.cuh runs on a GPU alone: reduce and scan by __shfl_down_sync",
    "\n# include <thrust/device_vector.h> // sort\n": "thrust/device_vector.h runs on a GPU alone: .* call torch",
    '\n#include "cutlass/gemm.h"\n': "cutlass/gemm.h runs on a GPU alone: multiply tiles by nvcuda::wmma",
    "\n#include <cute/tensor.hpp>\n": "cute/tensor.hpp runs on a GPU alone: multiply tiles by nvcuda::wmma",
    "\n#include <cublas_v2.h>\n": "cublas_v2.h runs on a GPU alone: it is called from a host program: call torch",
    "__shared__ int bins[256] = {0};": "an initialiser is not allowed for a __shared__ variable: let the threads write it",
    "__shared__ int n{3};": "an initialiser is not allowed",
    "__shared__ int m, n(3);": "an initialiser is not allowed",
    "static __shared__ alignas(16) float /* = */ s[4] = {};": "an initialiser is not allowed",
    "\n#include <cuda/ptx>\n": "cuda/ptx runs on a GPU alone: it is inline PTX",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text):
    code = f"__global__ void k(int* x) {{\n    int y = 0; {text}\n}}"
    line = 3 if text.startswith("\n") else 2
    with pytest.raises(CompileError) as error:
        RawKernel(code, "k")((1,), (1,), (torch.zeros(1),))
    first, message, shown = str(error.value).splitlines()
    assert first.startswith("k.cu does not compile (")
    assert re.match(f"k.cu:{line}: (fatal )?error: {REFUSED[text]}", message)
    assert shown == f"    {line} | {code.splitlines()[line - 1].rstrip()}"


COMPUTED = {
    "struct S { int v; __device__ S() { v = 3; } };\n__device__ S three_ways;": r" \(three_ways\)",
    "__device__ int three() { return 3; }\n__device__ int n = three();\nstatic __device__ int m = n;": r" \(m, n\)",
}


@pytest.mark.parametrize("text", COMPUTED)
def test_a_variable_with_a_value_to_be_computed_is_refused_by_name(text):
    use = "*x = three_ways.v;" if "three_ways" in text else "*x = n + m;"
    with pytest.raises(
        CompileError, match=f"variable outside of functions{COMPUTED[text]} is given its value by a call"
    ):
        RawKernel(f"{text}\n__global__ void k(int* x) {{ {use} }}", "k")((1,), (1,), (torch.zeros(1),))


def test_a_variable_with_a_constant_value_is_not_refused():
    code = """
    struct S { int v; __device__ constexpr S() : v(3) {} };
    __device__ S s;
    __constant__ float4 c = {1, 2, 3, 4};
    __device__ const int many = sizeof(S) * 100;
    extern __shared__ float dynamic[];
    __global__ void k(int* x) { dynamic[0] = c.w; *x = s.v + many + (int)dynamic[0]; }"""
    x = torch.zeros(1, dtype=torch.int32)
    RawKernel(code, "k")((1,), (1,), (x,), shared_mem=64)
    assert x.item() == 407


def test_shared_memory_without_an_initialiser_is_not_refused():
    code = """
    template <int N> __device__ int at_least(int n = N) { return n; }
    struct Point { int x = 3, y; };
    __global__ void k(int* x) {
        __shared__ int a[4 == 4 ? 2 : 1], /* = 3 */ b[2];  // = {0}
        __shared__ struct { int n; float f; } c;
        __shared__ __align__(16) float d[sizeof(int) >= 4];
        __shared__ alignas(8) union { int n; float f; } e;
        a[0] = b[1] = c.n = e.n = 1; d[0] = 2;
        int t = {3};
        *x = a[0] + b[1] + c.n + (int)d[0] + t + e.n + at_least<4>();
    }"""
    x = torch.zeros(1, dtype=torch.int32)
    RawKernel(code, "k")((1,), (1,), (x,))
    assert x.item() == 13


def test_what_is_not_compiled_or_only_named_like_it_is_not_refused(tmp_path):
    (tmp_path / "curand_like.h").write_text("#define SEED 7\n")
    code = """
    #if 0
    #include <curand_kernel.h>
    #endif
    // #include <cub/cub.cuh>
    #include "curand_like.h"
    __global__ void k(int* x) { const char* text = "k<<<1, 1>>> asm"; *x = SEED + (text[0] == 'k'); }"""
    x = torch.zeros(1, dtype=torch.int32)
    RawKernel(code, "k", options=(f"-I{tmp_path}",))((1,), (1,), (x,))
    assert x.item() == 8
