"""Kernels of the usual kinds, against torch."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from kernels.cuda import RawKernel, RawModule

VADD = r"""
extern "C" __global__ void vadd(const float* __restrict__ a, const float* __restrict__ b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""


def blank(*shape, device, dtype=torch.float32):
    return torch.full(shape, float("nan"), device=device, dtype=dtype)


def test_vadd_leaves_what_is_beyond_n(device):
    a, b, c = (torch.randn(1000, device=device), torch.randn(1000, device=device), blank(1024, device=device))
    RawKernel(VADD, "vadd")((4,), (256,), (a, b, c, 1000))
    assert torch.equal(c[:1000], a + b)
    assert c[1000:].isnan().all()


def test_transpose_through_a_static_tile(device):
    code = r"""
    #define TILE 32
    __global__ void transpose(const float* in, float* out, int rows, int columns) {
        __shared__ float tile[TILE][TILE + 1];
        int x = blockIdx.x * TILE + threadIdx.x;
        for (int y = threadIdx.y; y < TILE; y += blockDim.y) {
            int row = blockIdx.y * TILE + y;
            if (x < columns && row < rows) tile[y][threadIdx.x] = in[row * columns + x];
        }
        __syncthreads();
        int row = blockIdx.y * TILE + threadIdx.x;
        for (int y = threadIdx.y; y < TILE; y += blockDim.y) {
            int column = blockIdx.x * TILE + y;
            if (row < rows && column < columns) out[column * rows + row] = tile[threadIdx.x][y];
        }
    }"""
    x, out = torch.randn(67, 97, device=device), blank(97, 67, device=device)
    RawKernel(code, "transpose")((4, 3), (32, 8), (x, out, 67, 97))
    assert torch.equal(out, x.T)


@pytest.mark.parametrize(
    "declaration",
    [
        "extern __shared__ float part[];",
        "extern __shared__ __align__(sizeof(float4)) float part[];",
        "extern __shared__ volatile float part[];",
        "extern __shared__ unsigned char bytes[]; float* part = reinterpret_cast<float*>(bytes);",
        'const char* s = "extern __shared__ int part[];"; /* extern __shared__ int part[]; */\n'
        "extern __shared__\n    float\n    part[];",
    ],
)
def test_block_reduction_in_dynamic_shared_memory(device, declaration):
    code = (
        r"""__global__ void total(const float* x, float* out, int n) {
        DECLARATION
        float sum = 0;
        for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[blockIdx.x * n + i];
        part[threadIdx.x] = sum;
        __syncthreads();
        for (int half = blockDim.x / 2; half > 0; half /= 2) {
            if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
            __syncthreads();
        }
        if (threadIdx.x == 0) out[blockIdx.x] = part[0];
    }"""
    ).replace("DECLARATION", declaration)
    x, out = torch.randint(-99, 99, (37, 1001), device=device).float(), blank(37, device=device)
    RawKernel(code, "total")((37,), (256,), (x, out, 1001), shared_mem=256 * 4)
    assert torch.equal(out, x.sum(1))


def test_dynamic_shared_memory_declared_for_the_file_and_raised_to_its_limit(device):
    code = r"""
    extern __shared__ double table[];
    __device__ double last(int n) { return table[n - 1]; }
    __global__ void fill(double* out, int n) {
        for (int i = threadIdx.x; i < n; i += blockDim.x) table[i] = 2.0 * i;
        __syncthreads();
        if (threadIdx.x == 0) *out = last(n);
    }"""
    fill, out, n = RawKernel(code, "fill"), blank(1, device=device, dtype=torch.float64), 227 * 1024 // 8
    with pytest.raises(ValueError, match="max_dynamic_shared_size_bytes"):
        fill((1,), (128,), (out, n), shared_mem=8 * n)
    fill.max_dynamic_shared_size_bytes = 8 * n
    fill((1,), (128,), (out, n), 8 * n)
    assert out.item() == 2.0 * (n - 1)


def test_three_dimensional_indices(device):
    code = r"""__global__ void where(int* out) {
        int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        int threads = blockDim.x * blockDim.y * blockDim.z;
        out[block * threads + thread] = threadIdx.z * 10000 + blockIdx.y * 1000 + threadIdx.y * 100 + blockIdx.z;
    }"""
    out = torch.full((4, 3, 2, 6, 5, 7), -1, dtype=torch.int32, device=device)
    RawKernel(code, "where")((2, 3, 4), (7, 5, 6), (out,))
    gz, gy, _, z, y, _ = torch.meshgrid(*[torch.arange(n) for n in out.shape], indexing="ij")
    assert torch.equal(out.cpu(), (z * 10000 + gy * 1000 + y * 100 + gz).int())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_template_by_name_expression(device, dtype):
    code = r"""
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    template <typename T, int SCALE>
    __global__ void scale(const T* __restrict__ x, T* y, float shift, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = static_cast<T>(static_cast<float>(x[i]) * SCALE + shift);
    }"""
    types = {torch.float32: "float", torch.float16: "half", torch.bfloat16: "__nv_bfloat16"}
    names = [f"scale<{name}, 3>" for name in types.values()]
    module = RawModule(code=code, options=("-std=c++17",), name_expressions=names)
    x = (torch.randint(-99, 99, (1000,), device=device) / 8).to(dtype)  # exact whether contracted to an fma or not
    y = blank(1000, device=device, dtype=dtype)
    module.get_function(f"scale<{types[dtype]}, 3>")((8,), (128,), (x, y, np.float32(0.25), 1000))
    assert torch.equal(y, (x.float() * 3 + 0.25).to(dtype))


def test_options_define_names_and_find_headers(device, tmp_path):
    (tmp_path / "by.h").write_text("#define BY 5\n")
    code = '#include "by.h"\n__global__ void set(int* out) { *out = BY * FACTOR; }'
    out = torch.zeros(1, dtype=torch.int32, device=device)
    options = (f"-I{tmp_path}", "-DFACTOR=7", "-std=c++14", "--use_fast_math")
    RawKernel(code, "set", options)((1,), (1,), (out,))
    assert out.item() == 35
    if device == "cpu":  # a changed header is another kernel
        (tmp_path / "by.h").write_text("#define BY 6\n")
        RawKernel(code, "set", options)((1,), (1,), (out,))
        assert out.item() == 42


def test_atomics_from_many_blocks(device):
    code = r"""__global__ void count(int* i, unsigned* u, float* f, double* d, int* largest) {
        atomicAdd(i, 1); atomicAdd(u, 2u); atomicAdd(f, 1.0f); atomicAdd(d, 0.5);
        atomicMax(largest, int(blockIdx.x * blockDim.x + threadIdx.x));
    }"""
    out = [torch.zeros(1, dtype=t, device=device) for t in (torch.int32, torch.int32, torch.float32, torch.float64)]
    largest = torch.zeros(1, dtype=torch.int32, device=device)
    RawKernel(code, "count")((1000,), (128,), (*out, largest))
    assert [t.item() for t in (*out, largest)] == [128000, 256000, 128000.0, 64000.0, 127999]


def test_a_module_has_several_kernels_and_names_its_file(device, tmp_path):
    path = tmp_path / "pair.cu"
    path.write_text('extern "C" {\n__global__ void one(int* x) { *x = 1; }\n__global__ void two(int* x) { *x = 2; }\n}')
    module, x = RawModule(path=path), torch.zeros(1, dtype=torch.int32, device=device)
    one, two = module.get_function("one"), module.get_function("two")
    one((1,), (1,), (x,))
    assert x.item() == 1
    two((1,), (1,), (x,))
    assert x.item() == 2


def test_a_kernel_runs_on_torchs_current_stream():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU: torch.cuda is not available")
    kernel, x = RawKernel("__global__ void set(int* x) { *x = 5; }", "set"), torch.zeros(1, dtype=torch.int32).cuda()
    torch.cuda._sleep(1)  # each kernel is loaded by its first launch, which waits for what the GPU is doing
    kernel((1,), (1,), (x.zero_(),))
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        kernel((1,), (1,), (x.zero_(),))
    assert not stream.query()  # the kernel waits behind the sleep
    assert torch.cuda.default_stream().query()
    stream.synchronize()
    assert x.item() == 5


def test_a_new_thread_launches_first_of_all(device):
    kernel = RawKernel("__global__ void k(int* x) { x[threadIdx.x] = threadIdx.x; }", "k")
    x = torch.zeros(64, dtype=torch.int32, device=device)
    kernel((1,), (64,), (x,))  # compiles it, so that the thread has nothing to ask CUDA's runtime
    x.zero_()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(kernel, (1,), (64,), (x,)).result()
    assert x.tolist() == list(range(64))


def test_every_size_of_parameter(device):
    code = r"""__global__ void sizes(double* out, signed char c, unsigned short s, unsigned i, long long l, bool b, double d,
                                    float f, const float* nothing) {
        out[0] = c; out[1] = s; out[2] = i; out[3] = l; out[4] = b; out[5] = d; out[6] = f; out[7] = nothing == nullptr;
    }"""
    out = blank(8, device=device, dtype=torch.float64)
    args = (out, -5, np.uint16(65535), 2**32 - 1, -(2**40), True, 0.1, np.float32(1.5), None)
    RawKernel(code, "sizes")((1,), (1,), args)
    assert out.tolist() == [-5, 65535, 2.0**32 - 1, -(2.0**40), 1, 0.1, 1.5, 1]


def test_a_struct_by_value(device):
    code = r"""
    struct Plane { float normal[3]; double offset; char name[5]; };
    __global__ void distance(const float* x, double* out, Plane p) {
        float sum = 0;
        for (int i = 0; i < 3; ++i) sum += p.normal[i] * x[i];
        out[0] = sum + p.offset; out[1] = p.name[4];
    }"""
    layout = np.dtype([("normal", "f4", 3), ("offset", "f8"), ("name", "i1", 5)], align=True)
    plane = np.zeros((), layout)
    plane["normal"], plane["offset"], plane["name"] = (1, 2, 3), 0.5, (0, 0, 0, 0, 7)
    x, out = torch.tensor([4.0, 5.0, 6.0], device=device), blank(2, device=device, dtype=torch.float64)
    RawKernel(code, "distance")((1,), (1,), (x, out, plane[()]))
    assert out.tolist() == [32.5, 7]
    with pytest.raises(TypeError, match="argument 2 is a numpy.void192?, of 24 bytes, but the parameter takes 32"):
        RawKernel(code, "distance")((1,), (1,), (x, out, np.zeros((), [("a", "f4", 6)])[()]))


def test_shared_memory_of_device_functions_and_qualifiers_people_write(device):
    code = r"""
    #include <cuda_runtime.h>
    static __device__ __forceinline__ float twice(float x) { return 2 * x; }
    __device__ __noinline__ float shifted(float x) {
        static __shared__ float buffer[64];
        buffer[threadIdx.x] = x;
        __syncthreads();
        return buffer[(threadIdx.x + 1) % 64];
    }
    __constant__ float offset[2] = {0.5f, 1.5f};
    __device__ const float unit = 1.0f;
    __global__ void __launch_bounds__(64, 2) run(const float4* x, float* y) {
        const float4 v = __ldg(&x[threadIdx.x]);
        float sum = 0;
        #pragma unroll
        for (int i = 0; i < 4; ++i) sum += (&v.x)[i];
        y[threadIdx.x] = shifted(twice(sum)) + offset[1] * unit;
    }"""
    x, y = torch.randint(-9, 9, (64, 4), device=device).float(), blank(64, device=device)
    RawKernel(code, "run")((1,), (64,), (x, y))
    assert torch.equal(y, 2 * x.sum(1).roll(-1) + 1.5)


def test_tiled_matmul(device):
    code = r"""
    template <int T> __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
        __shared__ float as[T][T], bs[T][T];
        int row = blockIdx.y * T + threadIdx.y, column = blockIdx.x * T + threadIdx.x;
        float sum = 0;
        for (int start = 0; start < k; start += T) {
            int x = start + threadIdx.x, y = start + threadIdx.y;
            as[threadIdx.y][threadIdx.x] = row < m && x < k ? a[row * k + x] : 0.0f;
            bs[threadIdx.y][threadIdx.x] = y < k && column < n ? b[y * n + column] : 0.0f;
            __syncthreads();
            for (int i = 0; i < T; ++i) sum = fmaf(as[threadIdx.y][i], bs[i][threadIdx.x], sum);
            __syncthreads();
        }
        if (row < m && column < n) c[row * n + column] = sum;
    }"""
    a, b = torch.randint(-4, 5, (53, 71), device=device).float(), torch.randint(-4, 5, (71, 45), device=device).float()
    c = blank(53, 45, device=device)
    RawKernel(code, "matmul<16>")((3, 4), (16, 16), (a, b, c, 53, 45, 71))
    assert torch.equal(c, a @ b)
