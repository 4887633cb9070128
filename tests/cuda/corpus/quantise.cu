// Fewer bits: int8 with scales, products of four at once, four bits, eight bits of floating point.
#include <cuda_fp8.h>

// A row a block: the largest absolute value, a scale, rounded to int8.
__global__ void quantise_rows(const float* x, signed char* q, float* scales, int cols)
{
    __shared__ unsigned amax_bits;
    if (threadIdx.x == 0) amax_bits = 0u;
    __syncthreads();
    float amax = 0.0f;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) amax = fmaxf(amax, fabsf(x[blockIdx.x * cols + j]));
    atomicMax(&amax_bits, __float_as_uint(amax));  // bits of non-negative floats are ordered as integers
    __syncthreads();
    const float scale = __uint_as_float(amax_bits) / 127.0f;
    for (int j = threadIdx.x; j < cols; j += blockDim.x) {
        int v = __float2int_rn(x[blockIdx.x * cols + j] / scale);
        q[blockIdx.x * cols + j] = (signed char)max(-127, min(127, v));
    }
    if (threadIdx.x == 0) scales[blockIdx.x] = scale;
}

// a (M, K) times b (N, K), transposed, both int8 in words of four; scaled back to float.
__global__ void gemm_dp4a(const int* a, const int* b, float* c, const float* scale_a, const float* scale_b, int M, int N, int K4)
{
    const int n = blockIdx.x * blockDim.x + threadIdx.x, m = blockIdx.y * blockDim.y + threadIdx.y;
    if (m >= M || n >= N) return;
    int sum = 0;
    for (int k = 0; k < K4; ++k) sum = __dp4a(a[m * K4 + k], b[n * K4 + k], sum);
    c[m * N + n] = sum * scale_a[m] * scale_b[n];
}

// Eight numbers of four bits a word, with a zero point and a scale for each group of 32.
__global__ void dequantise_int4(const unsigned* __restrict__ packed, const float2* __restrict__ scale_zero, float* __restrict__ out, int words)
{
    const int w = blockIdx.x * blockDim.x + threadIdx.x;
    if (w >= words) return;
    const unsigned bits = packed[w];
    const float2 sz = scale_zero[w / 4];
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = (float((bits >> (4 * i)) & 0xF) - sz.y) * sz.x;
    float4* o = reinterpret_cast<float4*>(out) + 2 * w;
    o[0] = make_float4(v[0], v[1], v[2], v[3]);
    o[1] = make_float4(v[4], v[5], v[6], v[7]);
}

// To e4m3 and back.
__global__ void fp8_round_trip(const float* x, unsigned char* bits, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const __nv_fp8_e4m3 q(x[i]);
    bits[i] = q.__x;
    y[i] = float(q);
}
