"""CUDA C++ as the field writes it, and what is refused, by name and line."""

import numpy as np
import pytest
import torch

from kernels.cuda import CompileError, LaunchError, RawModule

pytestmark = pytest.mark.usefixtures("nvrtc_too")


def run(code, device, n=64, name="k", options=(), grid=(1,), block=None, dtype=torch.float32):
    """Runs name(T* y) on n zeros."""
    y = torch.zeros(n, dtype=dtype, device=device)
    module = RawModule(code=code, options=options, name_expressions=(name,))
    module.get_function(name)(grid, block or (n,), (y,))
    return y.cpu()


def test_templates_functors_and_lambdas(device):
    code = """
    template <typename T> struct Sum {
        static constexpr T identity = T(0);
        __device__ T operator()(T a, T b) const { return a + b; } };
    template <typename T> struct Max {
        static constexpr T identity = T(-1e30);
        __device__ T operator()(T a, T b) const { return a > b ? a : b; } };
    template <typename T, int N, template <typename> class Op, typename F>
    __device__ __forceinline__ T fold(const T (&values)[N], F&& change) {
        using Operation = Op<T>;
        T result = Operation::identity;
        #pragma unroll
        for (int i = 0; i < N; ++i) result = Operation{}(result, change(values[i]));
        return result;
    }
    template <class T, int N> __global__ void k(T* y) {
        T values[N];
        #pragma unroll
        for (int i = 0; i < N; ++i) values[i] = T(threadIdx.x + i);
        const T scale = T(2);
        auto twice = [scale](T x) { return scale * x; };
        T most = fold<T, N, Max>(values, [&](T x) -> T { return -x; });
        y[threadIdx.x] = fold<T, N, Sum>(values, twice) + most;
    }"""
    for kind, dtype in (("float", torch.float32), ("double", torch.float64)):
        y = run(code, device, name=f"k<{kind}, 4>", dtype=dtype)
        t = torch.arange(64, dtype=dtype)
        assert torch.equal(y, 2 * (4 * t + 6) - t)


def test_namespaces_overloads_and_host_device(device):
    code = """
    namespace outer { namespace inner {
        __host__ __device__ constexpr int square(int x) { return x * x; }
        inline __device__ float pick(float) { return 1.0f; }
        inline __device__ float pick(int) { return 2.0f; }
        enum class Way : int { up = 3, down };
    } }
    namespace oi = outer::inner;
    using namespace outer;
    static __device__ __noinline__ void add(float& to, const float& what) { to += what; }
    __device__ void swap_both(float* __restrict__ a, float* __restrict__ b) { float t = *a; *a = *b; *b = t; }
    namespace outer { __global__ void k(float* __restrict__ y) {
        float a = inner::pick(1) + oi::pick(1.0f), b = static_cast<int>(oi::Way::down);
        add(a, oi::square(3));
        swap_both(&a, &b);
        y[threadIdx.x] = a * 100 + b;
        static_assert(oi::square(4) == 16, "on the device too");
    } }"""
    assert (run(code, device, name="outer::k") == 4 * 100 + 12).all()


def test_classes_recursion_and_local_arrays(device):
    code = """
    struct Base { int offset; __device__ explicit Base(int o) : offset(o) {} };
    class Counter : public Base {
        int counts[8] = {};
      public:
        __device__ Counter(int o) : Base(o) {}
        __device__ void add(int value) { ++counts[(value + offset) & 7]; }
        __device__ int operator[](int i) const { return counts[i]; }
        struct Pair { int a, b; };
        __device__ Pair ends() const { return {counts[0], counts[7]}; }
    };
    __device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
    typedef int (*Function)(int);
    __global__ void k(float* y) {
        Counter counter(threadIdx.x);
        for (int i = 0; i < 12; ++i) counter.add(i);
        auto [a, b] = counter.ends();
        Function f = fibonacci;
        int total = 0;
        switch (threadIdx.x % 3) { case 0: total = 1; break; case 1: total = 2; [[fallthrough]]; default: total += 5; }
        do { if (total > 100) goto done; total *= 2; } while (true);
    done:
        y[threadIdx.x] = a * 10 + b + f(10) * 1000 + (total > 100);
    }"""
    y = run(code, device)
    for t in range(64):
        counts = [sum((i + t) % 8 == slot for i in range(12)) for slot in range(8)]
        assert y[t] == counts[0] * 10 + counts[7] + 55000 + 1


def test_type_traits_of_ones_own_and_sfinae(device):
    code = """
    template <bool B, class T = void> struct enable { };
    template <class T> struct enable<true, T> { typedef T type; };
    template <class T> struct traits { static const bool wide = false; typedef float acc; };
    template <> struct traits<double> { static const bool wide = true; typedef double acc; };
    template <class T> __device__ typename enable<traits<T>::wide, int>::type kind(T) { return 8; }
    template <class T> __device__ typename enable<!traits<T>::wide, int>::type kind(T) { return 4; }
    template <typename... Ts> __device__ float total(Ts... values) { return (0.0f + ... + float(values)); }
    template <int N> struct power { enum { value = 2 * power<N - 1>::value }; };
    template <> struct power<0> { enum { value = 1 }; };
    template <class T, typename A = typename traits<T>::acc> __global__ void k(float* y) {
        if constexpr (sizeof(A) == 8) y[threadIdx.x] = kind(T(1)) + power<5>::value;
        else y[threadIdx.x] = kind(T(1)) + total(1, 2.5f, 3u);
    }"""
    assert (run(code, device, name="k<double>") == 40).all()
    assert (run(code, device, name="k<float>") == 10.5).all()


def test_three_dimensional_grids_and_blocks(device):
    code = """__global__ void k(int* y) {
        int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        int i = block * (blockDim.x * blockDim.y * blockDim.z) + thread;
        y[i] = blockIdx.z * 100000 + blockIdx.y * 10000 + blockIdx.x * 1000
             + threadIdx.z * 100 + threadIdx.y * 10 + threadIdx.x;
        if (i == 0) y[0] = warpSize;
    }"""
    y = run(code, device, 2 * 3 * 4 * 5 * 2 * 3, grid=(2, 3, 4), block=(5, 2, 3), dtype=torch.int32).view(
        4, 3, 2, 3, 2, 5
    )
    digits = np.indices(y.shape)
    expected = sum(d * f for d, f in zip(digits, (100000, 10000, 1000, 100, 10, 1), strict=True))
    expected.flat[0] = 32
    assert torch.equal(y, torch.from_numpy(expected).int())


BOUNDED = "template <int N> __global__ void __launch_bounds__(N{more}) k(float* y) {{ y[threadIdx.x] = 1; }}"


@pytest.mark.parametrize("text", [
    BOUNDED.format(more=""), BOUNDED.format(more=", 2"), BOUNDED.format(more=" // the most\n, 2"),
    "template <int N> __launch_bounds__((N > 3 ? N : 3)) __global__ void k(float* y)\n{ y[threadIdx.x] = 1; }",
    "template <int N> __global__ __launch_bounds__(N) void k(float* __restrict__ y /* ) { */) { y[threadIdx.x] = 1; }",
])  # fmt: skip
def test_launch_bounds(device, text):
    assert run(text, device, name="k<32>", n=32).sum() == 32
    with pytest.raises(LaunchError, match=r"block is \(64, 1, 1\): 64 threads, but this kernel can have 32 a block"):
        run(text, device, name="k<32>")


def test_macros_of_a_gpus_compiler(device):
    code = """
    #if defined(__CUDACC__) && defined(__CUDACC_RTC__) && !defined(__NVCC__)
    #define COMPILER 1
    #else
    #error not like NVRTC
    #endif
    #ifndef __CUDA_ARCH__
    int main() { return 0; }
    #endif
    __global__ void k(float* y) { y[0] = __CUDA_ARCH__; y[1] = COMPILER; y[2] = __CUDACC_VER_MAJOR__ >= 12; }"""
    assert run(code, device)[:3].tolist() == [900, 1, 1]


def test_half_headers_after_the_macros(device):
    code = """
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    #include <cuda_fp8.h>
    #if __CUDA_ARCH__ >= 800
    __device__ float through(float x) { return __bfloat162float(__float2bfloat16(__half2float(__float2half(x)))); }
    #endif
    __global__ void k(float* y) { y[threadIdx.x] = through(threadIdx.x); }"""
    assert torch.equal(run(code, device), torch.arange(64.0))


def test_nvidias_library(device):
    code = """
    #include <cuda/std/limits>
    #include <cuda/std/type_traits>
    #include <cuda/std/cstdint>
    template <class T> __global__ void k(T* y) {
        static_assert(cuda::std::is_floating_point<T>::value, "");
        cuda::std::uint32_t n = 3;
        y[0] = cuda::std::numeric_limits<T>::max(); y[1] = -cuda::std::numeric_limits<T>::infinity(); y[2] = n;
    }"""
    y = run(code, device, name="k<float>")
    assert y[:3].tolist() == [torch.finfo(torch.float32).max, -float("inf"), 3]


def test_unrolling_changes_nothing(device):
    code = """
    #define UNROLL _Pragma("unroll 2")
    template <int N> __global__ void k(float* y) {
        float sum = 0;
        #pragma unroll
        for (int i = 0; i < 7; ++i) sum += i;
        #pragma unroll 4  // by four
        for (int i = 0; i < N; ++i) sum += i;
        #pragma unroll (2)
        for (int i = 0; i < N; ++i) {
            #pragma unroll 1
            for (int j = 0; j < 2; ++j) sum += j;
        }
        #pragma unroll N
        for (int i = 0; i < N; ++i) sum += 1;
        UNROLL
        for (int i = 0; i < N; ++i) sum += 1;
        y[threadIdx.x] = sum;
    }"""
    assert (run(code, device, name="k<9>") == 21 + 36 + 9 + 9 + 9).all()


def test_ptx_that_is_not_compiled_is_not_refused(device):
    code = """__global__ void k(float* y) {
    #if __CUDA_ARCH__ >= 10000
        asm volatile("nonsense;");
    #endif
        y[threadIdx.x] = 1;
    }"""
    assert run(code, device).sum() == 64


def test_lines_of_errors_after_all_that_is_rewritten(compiling_device):
    code = """#include <cuda/std/cstdint>
template <int N>
__global__ void __launch_bounds__(N,
    2) first(float* y) { }

__global__
void k(float* y) {
    extern __shared__
        float s[];
    y[0] = nothing;
}"""
    with pytest.raises(CompileError, match=r"    10 \|     y\[0\] = nothing;"):
        run(code, compiling_device)
