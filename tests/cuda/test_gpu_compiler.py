"""What NVIDIA's compiler refuses is refused on a CPU too, in its words and at the learner's line."""

import pytest
import torch

from kernels.cuda import CompileError, RawKernel, gpu_compiler

pytestmark = pytest.mark.skipif(not gpu_compiler.is_installed(), reason="needs NVRTC: cuda-toolkit[nvrtc]")

REFUSED = {
    "a function of the host": ("float twice(float x) { return 2 * x; }", "x[0] = twice(x[0]);"),
    "a template of the host": ("template <class T> T twice(T x) { return 2 * x; }", "x[0] = twice(x[0]);"),
    "a method of the host": ("struct S { float v; float twice() { return 2 * v; } };", "S s{x[0]}; x[0] = s.twice();"),
    "a constexpr function": ("constexpr float twice(float x) { return 2 * x; }", "x[0] = twice(x[0]);"),
    "a designated initialiser": ("struct S { float v, w; };", "S s = {.v = x[0], .w = 2}; x[0] = s.v * s.w;"),
    "a function marked __host__": ("__host__ float twice(float x) { return 2 * x; }", "x[0] = twice(x[0]);"),
    "a variable of the host": ("int N = 4;", "x[0] = N;"),
    "an array of variable length": ("", "int n = x[0] + 2; float a[n]; a[n - 1] = 1; x[0] = a[n - 1];"),
    "std::vector": ("#include <vector>", "std::vector<float> v(4); x[0] = v[0];"),
    "rand": ("#include <stdlib.h>", "x[0] = rand();"),
    "fopen": ("#include <stdio.h>", 'x[0] = fopen("a", "r") != nullptr;'),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    before, body = REFUSED[what]
    with pytest.raises(CompileError, match=r"(?s)^k.cu does not compile \((?:NVRTC|g\+\+|clang\+\+)\):\n.*k.cu[:(]\d"):
        RawKernel(f"{before}\n__global__ void k(float* x) {{\n{body}\n}}", "k")((1,), (1,), (torch.ones(4),))


def test_the_line_is_shown_and_the_verdict_kept(monkeypatch):
    code = "__global__ void k(float* x) {\n  int n = x[0] + 2; float kept[n];\n  kept[1] = 2; x[0] = kept[1];\n}"
    for _ in range(2):
        with pytest.raises(CompileError, match=r"k.cu\(2\): error: .*\n    2 \|   int n = x\[0\] \+ 2; float kept"):
            RawKernel(code, "k")((1,), (1,), (torch.ones(1),))
        monkeypatch.setattr(gpu_compiler, "compiled", None)  # the second time it is not asked


def test_without_it_the_hosts_compiler_decides(monkeypatch):
    monkeypatch.setattr(gpu_compiler, "is_installed", lambda: False)
    x = torch.ones(1)
    RawKernel("float thrice(float x) { return 3 * x; }\n__global__ void k(float* x) { x[0] = thrice(x[0]); }", "k")(
        (1,), (1,), (x,)
    )
    assert x.item() == 3
