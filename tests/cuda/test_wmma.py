"""nvcuda::wmma: every documented shape, type and layout, against integers that every type holds exactly."""

import pytest
import torch

from kernels.cuda import CompileError, LaunchError, RawKernel

pytestmark = pytest.mark.usefixtures("nvrtc_too")

WIDE = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
# The type in CUDA C, torch's, the accumulators', and the shapes (CUDA C++ Programming Guide, "Element Types and Matrix
# Sizes").
TYPES = {
    "half": ("half", torch.float16, ("float", "half"), WIDE),
    "bfloat16": ("__nv_bfloat16", torch.bfloat16, ("float",), WIDE),
    "tf32": ("wmma::precision::tf32", torch.float32, ("float",), ((16, 16, 8),)),
    "int8": ("signed char", torch.int8, ("int",), WIDE),
    "uint8": ("unsigned char", torch.uint8, ("int",), WIDE),
    "double": ("double", torch.float64, ("double",), ((8, 8, 4),)),
}
STORED = {torch.float16: "half", torch.bfloat16: "__nv_bfloat16", torch.float32: "float", torch.float64: "double"}
STORED |= {torch.int8: "signed char", torch.uint8: "unsigned char"}
RESULTS = {"float": torch.float32, "half": torch.float16, "int": torch.int32, "double": torch.float64}
CASES = [
    pytest.param(name, accumulator, shape, id=f"{name}-{accumulator}-{'x'.join(map(str, shape))}")
    for name, (_, _, accumulators, shapes) in TYPES.items()
    for accumulator in accumulators
    for shape in shapes
]

CODE = """
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void product(const STORED* a, const STORED* b, const ACC* c, ACC* d, int* elements) {
    wmma::fragment<wmma::matrix_a, M, N, K, TYPE, wmma::LAYOUT_A> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, TYPE, wmma::LAYOUT_B> fb;
    wmma::fragment<wmma::accumulator, M, N, K, ACC> fc;
    wmma::load_matrix_sync(fa, a, STRIDE_A);
    wmma::load_matrix_sync(fb, b, STRIDE_B);
    wmma::load_matrix_sync(fc, c, STRIDE_C, wmma::LAYOUT_C);
    wmma::mma_sync(fc, fa, fb, fc);
    for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] + fc.x[i];
    wmma::store_matrix_sync(d, fc, STRIDE_C, wmma::LAYOUT_C);
    elements[0] = fa.num_elements; elements[1] = fb.num_elements; elements[2] = fc.num_elements;
}"""


def laid_out(x, by_rows):
    """A matrix in memory with a stride of 48 elements from one row or column to the next, and that stride."""
    x = x if by_rows else x.T
    wide = torch.zeros(x.shape[0], 48, dtype=x.dtype)
    wide[:, : x.shape[1]] = x
    return wide, wide.shape[1]


@pytest.mark.parametrize("layouts", [(True, False, True), (False, True, False)], ids=["rcr", "crc"])
@pytest.mark.parametrize(("name", "accumulator", "shape"), CASES)
def test_product(device, name, accumulator, shape, layouts):
    kind, dtype, _, _ = TYPES[name]
    m, n, k = shape
    generator = torch.Generator().manual_seed(m * n + k)
    low = 0 if dtype == torch.uint8 else -9
    a, b, c = (torch.randint(low, 10, size, generator=generator).double() for size in ((m, k), (k, n), (m, n)))
    parts = {key: laid_out(x, rows) for key, x, rows in zip("ABC", (a, b, c), layouts, strict=True)}
    words = {"TYPE": kind, "STORED": STORED[dtype], "ACC": accumulator, "M": m, "N": n, "K": k}
    for key, rows in zip("ABC", layouts, strict=True):
        order = "row_major" if rows else "col_major"
        words |= {f"STRIDE_{key}": parts[key][1], f"LAYOUT_{key}": f"mem_{order}" if key == "C" else order}
    code = CODE
    for word in sorted(words, key=len, reverse=True):
        code = code.replace(word, str(words[word])) if len(word) > 1 else code.replace(f" {word},", f" {words[word]},")
    d = torch.zeros(parts["C"][0].shape, dtype=RESULTS[accumulator], device=device)
    elements = torch.zeros(3, dtype=torch.int32, device=device)
    inputs = (parts["A"][0].to(dtype), parts["B"][0].to(dtype), parts["C"][0].to(RESULTS[accumulator]))
    RawKernel(code, "product")((1,), (32,), (*(x.to(device) for x in inputs), d, elements))
    width = n if layouts[2] else m
    result = d.cpu().double()[:, :width]
    assert torch.equal(result if layouts[2] else result.T, 2 * (a @ b + c))
    assert not d.cpu()[:, width:].any()
    for found, count in zip(elements.tolist(), (m * k, k * n, m * n), strict=True):
        assert found >= count // 32


TILED = """
#include <mma.h>
using namespace nvcuda;
// One warp a tile of 16 x 16, four warps a block, A and B through shared memory.
__global__ void __launch_bounds__(128) matmul(const half* a, const half* b, float* c, int M, int N, int K) {
    __shared__ __align__(32) half as[64][16 + 8];
    __shared__ __align__(32) half bs[16][16 + 8];
    const int warp = threadIdx.x / 32, row = blockIdx.y * 64, column = blockIdx.x * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < K; k += 16) {
        for (int i = threadIdx.x; i < 64 * 16; i += 128) as[i / 16][i % 16] = a[(row + i / 16) * K + k + i % 16];
        for (int i = threadIdx.x; i < 16 * 16; i += 128) bs[i / 16][i % 16] = b[(k + i / 16) * N + column + i % 16];
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y;
        wmma::load_matrix_sync(x, &as[warp * 16][0], 24);
        wmma::load_matrix_sync(y, &bs[0][0], 24);
        wmma::mma_sync(sum, x, y, sum);
        __syncthreads();
    }
    wmma::store_matrix_sync(&c[(row + warp * 16) * N + column], sum, N, wmma::mem_row_major);
}"""


def test_tiled_matmul(device):
    m, n, k = 128, 48, 80
    a, b = torch.randn(m, k).half(), torch.randn(k, n).half()
    c = torch.full((m, n), float("nan"), device=device)
    RawKernel(TILED, "matmul")((n // 16, m // 64), (128,), (a.to(device), b.to(device), c, m, n, k))
    torch.testing.assert_close(c.cpu(), (a.double() @ b.double()).float(), rtol=1e-5, atol=1e-4)


def test_tf32_is_rounded(device):
    code = """
    #include <mma.h>
    using namespace nvcuda;
    __global__ void k(const float* x, float* y) { y[threadIdx.x] = wmma::__float_to_tf32(x[threadIdx.x]); }"""
    x = torch.tensor([1.0, 1 + 2**-10, 1 + 2**-11, 1 + 2**-12, -1 - 2**-11, 1 + 2**-11 - 2**-20, float("inf")])
    y = torch.zeros(7, device=device)
    RawKernel(code, "k")((1,), (7,), (x.to(device), y))
    assert y.tolist() == [1, 1 + 2**-10, 1 + 2**-10, 1, -1 - 2**-10, 1, float("inf")]


@pytest.mark.parametrize(("launch", "message"), [
    ((16, 16), "in a warp of fewer than 32 threads on line 6 of k.cu"),
    ((32, 12), "load_matrix_sync with a stride that is no multiple of 16 bytes on line 6"),
])  # fmt: skip
def test_wrong_use(launch, message):
    code = """
    #include <mma.h>
    using namespace nvcuda;
    __global__ void k(const half* a, int stride) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
        wmma::load_matrix_sync(x, a, stride);
    }"""
    with pytest.raises(LaunchError, match=message):
        RawKernel(code, "k")((1,), (launch[0],), (torch.zeros(512).half(), launch[1]))


def test_a_shape_that_is_not_there(compiling_device):
    code = """#include <mma.h>
    __global__ void k(float* x) { nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 32, float> f; *x = f.x[0]; }"""
    with pytest.raises(CompileError, match="fragment.*16, 16, 32"):
        RawKernel(code, "k")((1,), (32,), (torch.zeros(1, device=compiling_device),))


def test_products_one_after_another(device):
    code = """
    #include <mma.h>
    using namespace nvcuda;
    __global__ void k(const half* a, const half* b, float* c) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x[3];
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y[3];
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> z[3];
        for (int i = 0; i < 3; ++i) {
            wmma::load_matrix_sync(x[i], a + 256 * i, 16);
            wmma::load_matrix_sync(y[i], b + 256 * i, 16);
            wmma::fill_fragment(z[i], 1.0f);
        }
        for (int i = 0; i < 3; ++i) wmma::mma_sync(z[i], x[i], y[i], z[i]);
        for (int i = 0; i < 3; ++i) wmma::store_matrix_sync(c + 256 * i, z[i], 16, wmma::mem_row_major);
    }"""
    a, b = (torch.randint(-9, 10, (3, 16, 16)).half() for _ in range(2))
    c = torch.zeros(3, 16, 16, device=device)
    RawKernel(code, "k")((1,), (32,), (a.to(device), b.to(device), c))
    assert torch.equal(c.cpu(), (a.float() @ b.float()) + 1)
