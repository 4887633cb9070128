"""An int is as large as a float: what the source declares tells them apart, on every device."""

import numpy as np
import pytest
import torch

from kernels.cuda import RawKernel, RawModule
from kernels.cuda.parameters import declared

TYPES = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
typedef float real;
struct S { float a; };
// __global__ void k(int out, int f, int d, int h, int b, int i, int l, int r)
__global__ void __launch_bounds__(32, 1) k(
    double* __restrict__ out, const float f, /* the double, */ double d, __half h, __nv_bfloat16 b, const int i,
    long long l, real r)
{
    out[0] = f; out[1] = d; out[2] = __half2float(h); out[3] = __bfloat162float(b); out[4] = i; out[5] = l; out[6] = r;
}
"""
ONE = np.uint16(0x3F80)  # of bfloat16
RIGHT = {"f": np.float32(2), "d": 3.0, "h": np.float16(4), "b": ONE, "i": 5, "l": 6, "r": np.float32(7)}


def launched(device, code=TYPES, name="k", **changed):
    out = torch.zeros(7, dtype=torch.float64, device=device)
    RawKernel(code, name)((1,), (1,), tuple(({"out": out} | RIGHT | changed).values()))
    return out.tolist()


def test_the_call_that_the_others_break(device):
    assert launched(device) == [2, 3, 4, 1, 5, 6, 7]


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"f": 1}, r"argument 1 is the Python int 1, but the parameter f is float: pass np.float32\(1\)"),
        ({"f": True}, r"argument 1 is a Python bool, but the parameter f is float: pass np.float32\(1\)"),
        ({"f": np.int32(-3)}, r"argument 1 is the numpy.int32 -3, .* f is float: pass np.float32\(-3\)"),
        ({"d": 1}, r"argument 2 is the Python int 1, but the parameter d is double: pass np.float64\(1\)"),
        ({"d": None}, r"argument 2 is None, but the parameter d is double"),
        ({"h": 1}, r"argument 3 is the Python int 1, but the parameter h is __half: pass np.float16\(1\)"),
        ({"b": 1}, r"argument 4 .* b is __nv_bfloat16: pass its bits, torch.tensor\(1, dtype=torch.bfloat16\)"),
        ({"i": np.float32(2)}, r"argument 5 is the numpy.float32 2.0, but the parameter i is int: pass int\(2.0\)"),
        ({"i": 2.5}, r"argument 5 is the Python float 2.5, but the parameter i is int: pass int\(2.5\)"),
        ({"i": float("nan")}, r"argument 5 is the Python float nan, .* pass an int"),
        ({"l": 6.0}, r"argument 6 is the Python float 6.0, but the parameter l is long long: pass int\(6.0\)"),
        ({"out": 1.0}, r"argument 0 is the Python float 1.0, but the parameter out is a pointer: pass a torch tensor"),
    ],
)
def test_another_kind(device, changed, words):
    with pytest.raises(TypeError, match=words):
        launched(device, **changed)


def test_the_bits_of_a_bfloat16_are_had_as_the_error_says(device):
    bits = torch.tensor(1.5, dtype=torch.bfloat16).view(torch.uint16).numpy()[()]
    assert launched(device, b=bits)[3] == 1.5


def test_where_the_text_does_not_tell_sizes_are_all(device):
    assert launched(device, r=0)[6] == 0
    code = TYPES.replace("const float f", "const T f").replace(
        "__global__ void", "template <class T> __global__ void", 2
    )
    assert launched(device, code, "k<float>", f=0)[0] == 0
    assert launched(device, code, "k<int>", f=8)[0] == 8
    with pytest.raises(TypeError, match="argument 2 is the Python int 1, but the parameter d is double"):
        launched(device, code, "k<int>", f=8, d=1)


def test_a_pointer_may_be_an_address(device):
    x = torch.zeros(1, device=device)
    code = "__global__ void k(float* x, unsigned long long same) { if ((unsigned long long)x == same) *x = 1; }"
    module = RawModule(code=code)
    module.get_function("k")((1,), (1,), (x, x))
    assert x.item() == 1


PARAMETERS = {
    "float a": [("a", "float")],
    "const volatile double a, unsigned n": [("a", "double"), ("n", "unsigned")],
    "float": [("", "float")],
    "void": [],
    "float* a, const float *__restrict__ const b, float**": [("a", "*"), ("b", "*"), ("", "*")],
    "T a, float4 b, const Big c, real d": [None] * 4,
    "Pair<float, int> a, Span<float*> b, int n": [None, None, ("n", "int")],
    "float a[], void (*f)(int*), float (&b)[3]": [None] * 3,
    "[[maybe_unused]] float a, std::uint32_t n = 2 * 3": [("a", "float"), ("n", "uint32_t")],
    "char mark /* , float ' */, // (\n unsigned long long int n": [("mark", "char"), ("n", "unsigned long long int")],
    "long double a": [None],
}


@pytest.mark.parametrize("text", PARAMETERS)
def test_parameters_of_a_text(text):
    # As characters and strings, brackets mean nothing.
    code = f"__device__ char c = ')';\n#define K __global__ void k(int)\nextern \"C\" __global__ void k({text}) {{}}"
    assert [one and one[:2] for one in declared(code, "k")] == PARAMETERS[text]


def test_declarations_that_differ_tell_nothing():
    code = "namespace a { __global__ void k(float x, int n) {} } namespace b { __global__ void k(int x, int m) {} }"
    assert declared(code, "b::k") == [None, ("n", "int", "")]
    both = "namespace a { __global__ void k(float* x) {} } namespace b { __global__ void k(int* x) {} }"
    assert declared(both, "b::k") == [("x", "*", "")]
    assert declared("__global__ void k(float x) {}\n__global__ void k(float x, int n) {}", "k") == []
    assert declared("__global__ void other(float x) {}", "k") == declared("", "(void(*)(int))k") == []
