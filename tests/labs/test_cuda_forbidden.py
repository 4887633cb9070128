"""CUDA C that would switch off what counts it is refused; what NVRTC takes and honest kernels use is not."""

import re

import pytest
from test_cheats import SOLUTION

from kernels.grading.judging import judge
from kernels.grading.labs import exercise

REFUSED = {
    'extern "C" void __tsan_read4(void*) {}': "use __tsan_read4",
    'extern "C" void __sanitizer_cov_trace_pc() {}': "use __sanitizer_cov_trace_pc",
    '__attribute__((no_sanitize("thread"))) __device__ int f(int i) { return i; }': "use __attribute__",
    '__attribute__((aligned(16), no_sanitize("thread"))) __device__ int f(int i) { return i; }': "use __attribute__",
    "__attribute__((constructor)) void f() {}": "use __attribute__",
    "[[gnu::no_sanitize_thread]] __device__ int f(int i) { return i; }": "use the attribute [[gnu",
    "[[using gnu: no_sanitize_thread]] __device__ int f(int i) { return i; }": "use the attribute [[using",
    "#pragma GCC optimize(0)": "use #pragma GCC",
    "# pragma clang attribute push": "use # pragma clang",
    "%: pragma GCC optimize(0)": "use %:",
    '_Pragma("GCC optimize(0)")': "use _Pragma",
    "KERNELS_UNSEEN __device__ int f(int i) { return i; }": "use KERNELS_UNSEEN",
    "using kernels::lens::recorder;": "use kernels::",
    "namespace kernels { namespace lens { struct Recorder; extern Recorder recorder; } }": "use namespace kernels",
    '#line 1 "other.cu"': "use #line",
    "#include_next <stdio.h>": "use #include_next",
    "#if __GNUC__\n#endif": "use __GNUC__",
    "#ifdef __clang_major__\n#endif": "use __clang_major__",
    "#ifndef __CUDACC_RTC__\n#endif": "use __CUDACC_RTC__",
    "#if __has_include(<stdio.h>)\n#endif": "use __has_include",
    'asm("nop");': "use asm",
    "#define JOIN(a, b) a ## b": "use ##",
    "int __ts\\\nan_x;": "split a word over two lines",
    "#define __shared__": "define __shared__",
    "#undef __syncthreads": "define __syncthreads",
    'extern "C" char* strncpy(char*, const char*, unsigned long);': 'use extern "C" but before',
    'extern "C" { __device__ char* strncpy(char*, const char*, unsigned long); }': 'use extern "C" but before',
    'extern "C" {\n__device__ char* strncpy(char*, const char*, unsigned long); }': 'use extern "C" but before',
    'typedef char* F(char*, const char*, unsigned long); extern "C" { F strncpy; }': 'use extern "C" but before',
    'extern "C" { extern "C" char* strncpy(char*, const char*, unsigned long); }': 'use extern "C" but before',
    "__device__ float4 f(float* x) { return __builtin_ia32_loadups(x); }": "use __builtin_ia32_loadups",
    "__device__ void f(float* y, float* x) { mempcpy(y, x, 4); }": "use mempcpy",
    "int c = 'a\"'; asm(\"nop\"); int d = '\"b';": "leave a ' open",
    'const char* s = R"(";': "use R",
    "#include <dlfcn.h>": "include dlfcn.h",
    '#include "/etc/passwd"': "include /etc/passwd",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_switches_the_counting_off_is_refused_by_name_and_line(line):
    report = judge.grade(exercise("permuted_copy"), f"// first\n{line}\n{SOLUTION}")
    assert not report.verdicts, report
    assert report.refused.startswith(f"a submission may not {REFUSED[line]}"), report.refused
    number, shown = (4, line.splitlines()[1]) if line.startswith('extern "C" {\n') else (3, line.splitlines()[0])
    assert f"\n    {number} | {shown}" in report.refused, report.refused
    assert report.summary == "permuted_copy: is not allowed"


HONEST = r"""
#include <cuda_fp16.h>
#include <cooperative_groups.h>
#include <math.h>
#define THREADS 256
#define CEIL(a, b) \
    (((a) + (b) - 1) / (b))
#if __CUDA_ARCH__ >= 700 && defined(THREADS)
#define MASK 0xffffffff  // __attribute__, asm, KERNELS_ and __tsan_read4 are only words here: a ## b
#endif
/* #pragma GCC optimize
   [[gnu::pure]] */
__device__ int offset(int i);
struct __align__(16) Four { float v[4]; };
struct Pair { float v; int i; __device__ Pair(float v, int i) : v(v), i(i) {} };
[[nodiscard]] __device__ __forceinline__ int twice([[maybe_unused]] int i) { return 2 * i; }
__device__ __noinline__ int offset(int i) { return i; }
__constant__ float table[4] = {1, 2, 3, 4};
__device__ int counter = 3;
template <int N> __device__ int stretched(const int (&numbers)[N]) { return numbers[N - 1]; }
extern "C" __global__ void __launch_bounds__(1'024) permuted_copy(
    float* __restrict__ y, const float* __restrict__ x, int B, int S, int H, int D)
{
    extern __shared__ float dynamic[];
    __shared__ float tile[32][33];
    const char* words = "asm KERNELS_ __tsan_ \" [[gnu::x]]";
    int places[4] = {0, 1, 2, 3};
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __builtin_assume(i >= 0);
    int bits, many = 1'000'000, few = 0x1'0;
    float one = 1.0f;
    memcpy(&bits, &one, sizeof(float));
    memset(&few, 0, 4);
    if (bits == many) return;
    tile[threadIdx.x / 32][threadIdx.x % 32] = words[0];
    #pragma unroll
    for (int j = 0; j < 2; ++j) places[places[j]] += __popc(__ballot_sync(MASK, true)) > 40;
#pragma unroll 4
    for (int j = 0; j < 4; ++j) places[j] += 0;
    if (i >= B * S * H * D) return;
    int d = i % D, s = i / D % S, h = i / D / S % H, b = i / D / S / H;
    y[i] = x[offset(((b * S + s) * H + h) * D + d)];
}
"""


IN_A_BLOCK = f"""#ifdef __cplusplus
extern "C"
{{
#endif
__device__ __forceinline__ int twice(int i) {{ if (i) {{ return 2 * i; }} return 0; }}
#define LAST(i) (i);
{SOLUTION}
#ifdef __cplusplus
}}
#endif
"""


@pytest.mark.parametrize("text", [HONEST, IN_A_BLOCK], ids=["many things", "in a block of C's linkage"])
def test_what_honest_kernels_use_passes(text):
    report = judge.grade(exercise("permuted_copy"), text)
    assert report.passed, report


def test_what_would_run_before_the_kernel_is_refused_and_does_not_run(capfd):
    text = 'int printed() { return printf("now"); }\nstatic int first = printed();\n'
    report = judge.grade(exercise("permuted_copy"), text + SOLUTION)
    assert report.summary == "permuted_copy: does not compile", report
    assert re.search(r"a variable outside of functions( \(first\))? is given its value by a call or", report.refused), (
        report
    )
    assert "now" not in capfd.readouterr().out + report.printed
