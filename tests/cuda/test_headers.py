"""Headers of the C and C++ libraries that kernels include, which NVIDIA's run-time compiler has not: the same everywhere."""

import pytest
import torch

from kernels.cuda import CompileError, RawKernel, RawModule

pytestmark = pytest.mark.usefixtures("nvrtc_too")

# What is included, a value of it, and what the value is.
HEADERS = {
    "stdio.h": ('printf("%s", "")', 1),
    "cstdio": ('printf("%s", "")', 1),
    "stdint.h": ("(uint32_t)-1 == UINT32_MAX && INT64_MIN < 0 && sizeof(intptr_t) == 8 && (int8_t)200 < 0", 1),
    "cstdint": ("(std::uint64_t)-1 == UINT64_MAX && INT16_MAX + INT16_MIN + 1 == 0", 1),
    "stddef.h": ("sizeof(size_t) + sizeof(ptrdiff_t) + (NULL == 0)", 17),
    "cstddef": ("sizeof(std::size_t) + sizeof(std::ptrdiff_t)", 16),
    "stdbool.h": ("true", 1),
    "stdlib.h": ("abs(-3)", 3),
    "cstdlib": ("abs(-3)", 3),
    "string.h": ("memcpy(x, x + 1, 4) == x", 1),
    "cstring": ("memset(x, 0, 4) == x", 1),
    "math.h": ("(int)(1e4 * (sqrt(M_E) + M_PI_4 + M_LN10)) + (INFINITY > HUGE_VALF)", 47367),
    "cmath": ("(int)(1e4f * std::exp(1.0f)) + std::isnan(NAN)", 27183),
    "float.h": ("FLT_MAX > 3.4e38f && FLT_EPSILON == 1.0f / (1 << 23) && DBL_MIN < 1e-300", 1),
    "cfloat": ("-FLT_MAX < -3.4e38f && FLT_MIN > 0", 1),
    "limits.h": ("CHAR_BIT + UCHAR_MAX + SHRT_MIN + INT_MAX / 2 + INT_MIN / 2 + 32768 + (UINT_MAX + 1 == 0)", 263),
    "climits": ("INT_MAX - USHRT_MAX + (LLONG_MIN < 0) + (ULLONG_MAX > 0)", 2147483647 - 65535 + 2),
    "limits": ("std::numeric_limits<int>::max() - (std::numeric_limits<float>::infinity() > 1e38f)", 2147483646),
    "type_traits": ("std::is_same<std::remove_const_t<const int>, int>::value", 1),
    "utility": ("std::pair<int, float>(5, 1).first", 5),
    "algorithm": ("(std::swap(x[0], x[1]), std::max(3, std::min(7, 5)) + std::clamp(9, 1, 2))", 7),
    "array": ("std::array<int, 3>{1, 2, 3}[1] + (int)std::array<int, 3>{}.size()", 5),
    "tuple": ("std::get<1>(std::make_tuple(1, 7))", 7),
    "functional": ("std::plus<int>()(2, 3)", 5),
    "initializer_list": ("(int)std::initializer_list<int>{1, 2, 3}.size()", 3),
    "assert.h": ("(assert(x != nullptr), 1)", 1),
    "cassert": ("(assert(x != nullptr), 1)", 1),
    "time.h": ("clock() != 0", 1),
    "ctime": ("clock() != 0", 1),
    "cuda.h": ("1", 1),
    "cuda_runtime.h": ("make_int2(3, 4).y", 4),
    "cuda_runtime_api.h": ("1", 1),
    "device_launch_parameters.h": ("threadIdx.x + 1", 1),
    "math_constants.h": ("CUDART_INF_F > FLT_MAX", 1),
}


@pytest.mark.parametrize("header", HEADERS)
def test_a_header(device, header):
    value, expected = HEADERS[header]
    code = f"#include <{header}>\n__global__ void k(int* x) {{\n    x[0] = {value};\n}}\n"
    x = torch.full((2,), -1, dtype=torch.int32, device=device)
    RawKernel(code, "k")((1,), (1,), (x,))
    assert x[0].item() == expected


def test_all_of_them_together_and_from_a_header_of_ones_own(device, tmp_path):
    (tmp_path / "common.h").write_text("".join(f"#include <{header}>\n" for header in HEADERS))
    text = '#include "common.h"\nusing namespace std;\n__global__ void k(uint32_t* x) { *x = max(x[0], (uint32_t)UINT8_MAX); }'
    x = torch.zeros(1, dtype=torch.int32, device=device)
    RawModule(code=text, options=(f"-I{tmp_path}",)).get_function("k")((1,), (1,), (x,))
    assert x.item() == 255


def test_errors_after_headers_name_the_line(device):
    code = (
        "#include <stdio.h>\n#include <limits>\n#include <cuda_runtime.h>\n__global__ void k(int* x) {\n *x = oops; }"
    )
    with pytest.raises(CompileError, match=r"    5 \|  \*x = oops;"):
        RawKernel(code, "k")((1,), (1,), (torch.zeros(1, device=device),))
