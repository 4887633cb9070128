"""Vector types, packed structs, cache hints, constant and global variables, shared memory."""

import pytest
import torch

from kernels.cuda import RawKernel, RawModule

pytestmark = pytest.mark.usefixtures("nvrtc_too")

SCALARS = ["char", "signed char", "short", "int", "long", "long long", "float", "double"]
SCALARS += [f"unsigned {kind}" for kind in ("char", "short", "int", "long", "long long")]
VECTORS = ["char2", "char4", "short2", "short4", "int2", "int4", "longlong2", "uchar2", "uchar4", "ushort2", "ushort4"]
VECTORS += ["uint2", "uint4", "ulonglong2", "float2", "float4", "double2"]
HALVES = ["__half", "__half2", "__nv_bfloat16", "__nv_bfloat162"]


@pytest.mark.parametrize("kinds", [SCALARS, VECTORS, HALVES], ids=["scalars", "vectors", "halves"])
def test_loads_and_stores_with_cache_hints(device, kinds):
    # Ten copies of the bytes, one by each function, in units of each type.
    loads = ["__ldg", "__ldca", "__ldcg", "__ldcs", "__ldlu", "__ldcv"]
    stores = ["__stwb", "__stcg", "__stcs", "__stwt"]
    moves = [f"y[i] = {load}(x + i); y += n;" for load in loads] + [
        f"{store}(y + i, x[i]); y += n;" for store in stores
    ]
    code = f"""
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    template <typename T> __global__ void k(const T* x, T* y, int bytes) {{
        int n = bytes / sizeof(T);
        for (int i = threadIdx.x; i < n; i += blockDim.x) {{ T* start = y; {" ".join(moves)} y = start; }}
    }}"""
    module = RawModule(code=code, name_expressions=[f"k<{kind}>" for kind in kinds])
    x = torch.randint(0, 100, (256,), dtype=torch.uint8, device=device)
    for kind in kinds:
        y = torch.zeros(10, 256, dtype=torch.uint8, device=device)
        module.get_function(f"k<{kind}>")((1,), (32,), (x, y, 256))
        assert (y == x).all(), kind


def test_vector_types(device):
    code = """
    struct alignas(16) Packed { half_t v[8]; };
    __global__ void k(const float4* x, float* y) {
        float4 a = x[threadIdx.x];
        float3 b = make_float3(a.x, a.y, a.z);
        float2 c = {a.w, 1.0f};
        int4 d = make_int4(1, 2, 3, 4);
        uchar4 e = make_uchar4(250, 251, 252, 253);
        e.x += 10;
        double2 f = make_double2(b.x, c.y);
        uint3 g = threadIdx;
        dim3 h(2, 3);
        float4 sum = make_float4(b.x + c.x, b.y + d.w, b.z + e.x, f.y + g.x + h.z);
        reinterpret_cast<float4*>(y)[threadIdx.x] = sum;
        static_assert(sizeof(float3) == 12 && alignof(float4) == 16 && alignof(float2) == 8 && alignof(double2) == 16, "");
        static_assert(sizeof(uchar4) == 4 && alignof(uchar4) == 4 && sizeof(Packed) == 16 && alignof(Packed) == 16, "");
    }""".replace("struct alignas", "typedef unsigned short half_t;\n struct alignas")
    x = torch.randn(64, 4, device=device)
    y = torch.zeros(64, 4, device=device)
    RawKernel(code, "k")((1,), (64,), (x, y))
    thread = torch.arange(64.0, device=device)
    assert torch.equal(y, torch.stack([x[:, 0] + x[:, 3], x[:, 1] + 4, x[:, 2] + 4, 2 + thread], 1))


def test_packed_vectors_of_any_type(device):
    code = """
    #include <cuda_bf16.h>
    template <typename T, int N> struct __align__(sizeof(T) * N) Packed {
        T value[N];
        __device__ T& operator[](int i) { return value[i]; }
        __device__ const T& operator[](int i) const { return value[i]; }
    };
    template <typename T> using Vector = Packed<T, 16 / sizeof(T)>;
    template <typename T> __device__ Vector<T> load(const T* from) { return *reinterpret_cast<const Vector<T>*>(from); }
    template <typename T> __device__ Vector<T> load_bits(const T* from) {
        union { int4 bits; Vector<T> value; } both = {__ldcs(reinterpret_cast<const int4*>(from))};
        return both.value;
    }
    template <typename T> __global__ void k(const T* x, T* y) {
        constexpr int N = sizeof(Vector<T>) / sizeof(T);
        static_assert(alignof(Vector<T>) == 16, "");
        Vector<T> a = load(x + threadIdx.x * N), b = load_bits(x + threadIdx.x * N);
        #pragma unroll
        for (int i = 0; i < N; ++i) a[i] = a[i] + b[N - 1 - i];
        *reinterpret_cast<Vector<T>*>(y + threadIdx.x * N) = a;
    }"""
    for kind, dtype in (("float", torch.float32), ("__nv_bfloat16", torch.bfloat16), ("double", torch.float64)):
        n = 16 // dtype.itemsize
        x = torch.randint(-100, 100, (32, n), device=device).to(dtype)
        y = torch.zeros_like(x)
        RawModule(code=code, name_expressions=(f"k<{kind}>",)).get_function(f"k<{kind}>")((1,), (32,), (x, y))
        assert torch.equal(y, x + x.flip(1))


VARIABLES = """
__constant__ float coefficients[4] = {1, 2, 3, 4};
static __constant__ int factor = 3;
__device__ int counter;
__device__ float4 wide = {1, 2, 3, 4};
namespace inner { __device__ double table[3] = {0.5, 1.5, 2.5}; }
extern "C" {
__global__ void __launch_bounds__(64) apply(float* y) {
    y[threadIdx.x] = coefficients[threadIdx.x % 4] * factor + wide.w;
    atomicAdd(&counter, 1);
}
}
__global__ void take(int* count, double* sum) { *count = counter; *sum = inner::table[0] + inner::table[2]; }
"""


def test_variables_are_shared_by_kernels_and_python(device):
    module = RawModule(code=VARIABLES, name_expressions=("apply", "take"))
    counter = module.get_global("counter", device).view(torch.int32)
    assert counter.device.type == device
    assert counter.tolist() == [0]
    y = torch.zeros(64, device=device)
    module.get_function("apply")((2,), (64,), (y,))
    assert counter.tolist() == [128]
    assert y[:4].tolist() == [7, 10, 13, 16]
    module.get_global("coefficients", device).view(torch.float32).copy_(torch.tensor([5.0, 6, 7, 8]))
    module.get_global("wide", device).view(torch.float32)[3] = 0.5
    module.get_function("apply")((2,), (64,), (y,))
    assert y[:4].tolist() == [15.5, 18.5, 21.5, 24.5]
    counter.fill_(7)
    assert module.get_global("inner::table", device).view(torch.float64).tolist() == [0.5, 1.5, 2.5]
    module.get_global("inner::table", device).view(torch.float64)[2] = 10
    count, total = torch.zeros(1, dtype=torch.int32, device=device), torch.zeros(1, dtype=torch.float64, device=device)
    module.get_function("take")((1,), (1,), (count, total))
    assert (count.item(), total.item()) == (7, 10.5)


def test_kernels_asked_for_later_have_the_same_variables(device):
    module = RawModule(code=VARIABLES)
    y = torch.zeros(64, device=device)
    module.get_function("apply")((1,), (64,), (y,))
    count, total = torch.zeros(1, dtype=torch.int32, device=device), torch.zeros(1, dtype=torch.float64, device=device)
    module.get_function("take")((1,), (1,), (count, total))
    assert count.item() == 64


def test_a_static_constant_can_be_written(device):
    if device == "cuda":
        pytest.skip("NVRTC leaves out names for static variables")
    module = RawModule(code=VARIABLES, name_expressions=("apply",))
    module.get_global("factor", device).view(torch.int32).fill_(1)
    y = torch.zeros(64)
    module.get_function("apply")((1,), (64,), (y,))
    assert y[:4].tolist() == [5, 6, 7, 8]  # and wide.w, which is 4


def test_a_variable_that_is_not_there(device):
    module = RawModule(code=VARIABLES, name_expressions=("apply",))
    with pytest.raises(ValueError, match="no __device__ or __constant__ variable nothing"):
        module.get_global("nothing", device)
    with pytest.raises(ValueError, match="no kernel"):
        RawModule(code="__device__ int x;").get_global("x", device)


def test_kernels_that_are_not_compiled_do_no_harm(device):
    code = """
    #if 0
    __global__ void gone(float* y) { undefined(y); }
    #endif
    template <int N> __global__ void generic(float* y) { y[0] = N; }
    namespace space { __global__ void inside(float* y) { y[0] = 1; } }
    __global__ void k(float* y) { y[0] = 2; }"""
    y = torch.zeros(1, device=device)
    RawModule(code=code).get_function("k")((1,), (1,), (y,))
    assert y.item() == 2


def test_shared_memory_of_every_kind(device):
    code = """
    template <typename T, int ROWS, int COLUMNS> struct Tile { T data[ROWS][COLUMNS + 1]; };
    template <typename T> __device__ T* shared_array() {
        extern __shared__ __align__(16) unsigned char raw[];
        return reinterpret_cast<T*>(raw); }
    template <typename T> __global__ void k(const T* x, T* y) {
        __shared__ Tile<T, 8, 8> tile;
        __shared__ T row[8], total;
        __shared__ union { T value; unsigned char bytes[sizeof(T)]; } both;
        T* dynamic = shared_array<T>();
        int* counts = reinterpret_cast<int*>(dynamic + 64);
        const int i = threadIdx.x, j = threadIdx.y, t = j * 8 + i;
        tile.data[j][i] = x[t];
        dynamic[t] = x[63 - t];
        counts[t] = t;
        if (t == 0) { total = T(0); both.value = x[5]; }
        __syncthreads();
        if (j == 0) { row[i] = T(0); for (int r = 0; r < 8; ++r) row[i] += tile.data[r][i]; }
        __syncthreads();
        if (t == 0) for (int c = 0; c < 8; ++c) total += row[c];
        __syncthreads();
        y[t] = tile.data[i][j] + dynamic[t] + total + both.value + T(counts[63 - t]);
    }"""
    for kind, dtype in (("float", torch.float32), ("double", torch.float64), ("int", torch.int32)):
        x = torch.arange(64, device=device).to(dtype)
        y = torch.zeros_like(x)
        kernel = RawModule(code=code, name_expressions=(f"k<{kind}>",)).get_function(f"k<{kind}>")
        kernel((1,), (8, 8), (x, y), shared_mem=64 * dtype.itemsize + 256)
        assert torch.equal(y, (x.view(8, 8).T.flatten() + x.flip(0) + x.sum() + 5 + x.flip(0)).to(dtype))


def test_modules_of_the_same_text_have_variables_of_their_own(device):
    first, second = (RawModule(code=VARIABLES, name_expressions=("apply",)) for _ in range(2))
    first.get_function("apply")((1,), (64,), (torch.zeros(64, device=device),))
    assert first.get_global("counter", device).view(torch.int32).item() == 64
    assert second.get_global("counter", device).view(torch.int32).item() == 0
