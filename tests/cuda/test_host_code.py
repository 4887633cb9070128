"""A public file, with its program around the kernels, loads as it is."""

import pytest
import torch

from kernels.cuda import CompileError, RawKernel, RawModule
from kernels.cuda.host_code import without_host_code

pytestmark = pytest.mark.usefixtures("nvrtc_too")

FILE = r"""#include <cstdio>
#include <vector>
#include <iostream>
#include <cuda_runtime.h>
#define CHECK(call) do { cudaError_t e = call; if (e != cudaSuccess) { printf("{ %s", cudaGetErrorString(e)); } } while (0)
using namespace std;
__constant__ float factors[2] = {2.0f, 3.0f};
struct Timer { cudaEvent_t a, b; void start() { cudaEventRecord(a); } };
struct Pair { float a, b; };
__host__ __device__ inline float scaled(float x) { return factors[0] * x; }
template <typename T> __device__ T twice(T x) { return x + x; }
namespace mine {
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Pair p = {2, 1};
    if (i < n) y[i] = twice(scaled(x[i])) / p.a;
}
template <typename T> void launch(const T* x, T* y, int n) {
#ifdef DEBUG
    printf("launching {");
#endif
    scale<<<(n + 255) / 256, 256>>>(x, y, n);  // }
    CHECK(cudaGetLastError());
}
}  // namespace mine
extern "C" void on_cpu(const float* x, float* y, int n) { for (int i = 0; i < n; ++i) y[i] = 2 * x[i]; }
int main() {
    vector<float> x(100); std::cout << x[0];
    mine::launch(&x[0], &x[0], 100);
}
"""


def test_a_file_with_its_program(tmp_path, capfd):
    (tmp_path / "mine.cu").write_text(FILE)
    module = RawModule(path=tmp_path / "mine.cu", name_expressions=["mine::scale"])
    assert capfd.readouterr().err == "mine.cu: left out launch, on_cpu, main: here kernels are launched from Python\n"
    x, y = torch.rand(2, 100)
    module.get_function("mine::scale")((1,), (256,), (x, y, 100))
    assert torch.equal(y, 2 * x)


def test_lines_stay_and_directives():
    code, names = without_host_code(FILE)
    assert code.count("\n") == FILE.count("\n") and names == ["launch", "on_cpu", "main"]
    lines = code.splitlines()
    for number, line in enumerate(FILE.splitlines()):
        assert lines[number].strip() in (line.strip(), "", "}", ";")
    assert "#ifdef DEBUG" in lines and "#endif" in lines


def test_without_a_program_a_function_of_the_host_is_a_mistake():
    code = "float f(float x) { return x; }\n__global__ void k(float* x) { x[0] = f(x[0]); } // main() <<<\n"
    assert without_host_code(code) == (code, [])
    with pytest.raises(CompileError, match="<<<|launched from Python"):
        RawKernel("__global__ void k(float* x) { k<<<1, 1>>>(x); }", "k")((1,), (1,), (torch.zeros(1),))
