// Arithmetic in half and bfloat16, one and two at a time.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__global__ void haxpy(int n, half a, const half *x, half *y)
{
    int start = threadIdx.x + blockDim.x * blockIdx.x;
    int stride = blockDim.x * gridDim.x;
    int n2 = n / 2;
    half2 *x2 = (half2*)x, *y2 = (half2*)y;
    for (int i = start; i < n2; i += stride)
        y2[i] = __hfma2(__half2half2(a), x2[i], y2[i]);
    if (start == 0 && (n % 2))
        y[n - 1] = __hfma(a, x[n - 1], y[n - 1]);
}

// Pairs multiplied in half, summed in float: eight at a load.
__global__ void hdot(const half* __restrict__ a, const half* __restrict__ b, float* result, int n)
{
    float sum = 0.f;
    const int chunk = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (chunk + 8 <= n) {
        const uint4 ra = *reinterpret_cast<const uint4*>(a + chunk), rb = *reinterpret_cast<const uint4*>(b + chunk);
        const __half2 *pa = reinterpret_cast<const __half2*>(&ra), *pb = reinterpret_cast<const __half2*>(&rb);
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 p = __half22float2(__hmul2(pa[i], pb[i]));
            sum += p.x + p.y;
        }
    } else {
        for (int i = chunk; i < n; ++i) sum += __half2float(__hmul(a[i], b[i]));
    }
    for (int mask = 16; mask; mask >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, mask);
    if (threadIdx.x % 32 == 0) atomicAdd(result, sum);
}

// Shuffled as pairs of bfloat16: the largest of absolute values in each row.
__global__ void absmax_bf16(const __nv_bfloat162* x, __nv_bfloat16* out, int pairs)
{
    __nv_bfloat162 m = __float2bfloat162_rn(0.0f);
    for (int i = threadIdx.x; i < pairs; i += 32) m = __hmax2(m, __habs2(x[blockIdx.x * pairs + i]));
    for (int o = 16; o > 0; o >>= 1) m = __hmax2(m, __shfl_xor_sync(0xffffffffu, m, o));
    if (threadIdx.x == 0) out[blockIdx.x] = __hmax(__low2bfloat16(m), __high2bfloat16(m));
}

// A residual stream: comparisons, operators and conversions of a scalar type chosen by a template.
template <typename T>
__global__ void relu_residual(const T* x, const T* r, T* y, float* f, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        T v = x[i] > T(0.0f) ? x[i] : T(0.0f);
        v = v + r[i] * T(0.5f);
        y[i] = v;
        f[i] = (float)v;
    }
}

// Sums into pairs by an atomic of 32 bits.
__global__ void bucket_half2(const half2* x, const int* bucket, half2* sums, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&sums[bucket[i]], x[i]);
}
