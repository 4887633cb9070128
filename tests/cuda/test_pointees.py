"""A pointer's type is in the source: a tensor of another dtype is refused before it is read as something that it is not."""

import pytest
import torch

from kernels.cuda import RawKernel


def launched(pointee, dtype, device):
    code = f"#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cstdint>\n__global__ void k(int n, {pointee}* x) {{}}"
    RawKernel(code, "k")((1,), (1,), (1, torch.zeros(4, device=device).to(dtype)))


WRONG = {
    "int": (torch.int64, torch.int32, "declare long long"),
    "const float": (torch.float64, torch.float32, "declare double"),
    "double": (torch.float32, torch.float64, "declare float"),
    "float4": (torch.float16, torch.float32, "declare __half"),
    "int ": (torch.float32, torch.int32, "declare float"),
    "__half2": (torch.bfloat16, torch.float16, "declare __nv_bfloat16"),
    "unsigned long long": (torch.int32, torch.int64, "declare int"),
    "std::uint32_t": (torch.float64, torch.int32, "declare double"),
    "short": (torch.bool, torch.int16, "declare bool"),
    "float": (torch.int32, torch.float32, "declare int"),
}


@pytest.mark.parametrize("pointee", WRONG)
def test_another_dtype(pointee, device):
    given, wanted, instead = WRONG[pointee]
    own = pointee.replace("const", "").replace("std::", "").strip()
    words = (
        rf"argument 1 is a tensor of {given}, but .* x is {own}\*, of {wanted}: pass x.to\({wanted}\), or {instead}\* x"
    )
    with pytest.raises(TypeError, match=words):
        launched(pointee, given, device)


@pytest.mark.parametrize(
    "pointee, dtype",
    [
        ("void", torch.float64),
        ("unsigned char", torch.float64),
        ("char", torch.int64),
        ("float", torch.uint8),
        ("unsigned", torch.int32),
        ("int", torch.uint32),
        ("unsigned", torch.float32),
        ("unsigned short", torch.bfloat16),
        ("float2", torch.complex64),
        ("half2", torch.float16),
        ("size_t", torch.int64),
    ],
)
def test_what_passes(pointee, dtype, device):
    launched(pointee, dtype, device)


def test_a_call_like_one_that_was_right_is_checked_too(device):
    kernel = RawKernel("template <class T> __global__ void k(T* x, float* y) { y[0] = x[0]; }", "k<int>")
    x, y = torch.ones(1, dtype=torch.int32, device=device), torch.zeros(1, device=device)
    kernel((1,), (1,), (x, y))
    kernel((1,), (1,), (y, y))  # of a template's type the source says nothing
    with pytest.raises(TypeError, match=r"argument 1 is a tensor of torch.int32, but the parameter y is float\*"):
        kernel((1,), (1,), (x, x))
