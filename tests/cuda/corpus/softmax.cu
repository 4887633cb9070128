// softmax over rows of N by C, from one thread a row to a warp and a block a row.

#define CEIL_DIV(M, N) (((M) + (N) - 1) / (N))
#define INF __int_as_float(0x7f800000)

#ifdef USE_BF16
#include <cuda_bf16.h>
typedef __nv_bfloat16 floatX;
#elif defined(USE_FP16)
#include <cuda_fp16.h>
typedef half floatX;
#else
typedef float floatX;
#endif

__global__ void softmax_forward_kernel1(float* out, const float* inp, int N, int C) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        const float* inp_row = inp + i * C;
        float* out_row = out + i * C;
        float maxval = -INF;
        for (int j = 0; j < C; j++) {
            if (inp_row[j] > maxval) { maxval = inp_row[j]; }
        }
        double sum = 0.0;
        for (int j = 0; j < C; j++) {
            out_row[j] = expf(inp_row[j] - maxval);
            sum += out_row[j];
        }
        for (int j = 0; j < C; j++) { out_row[j] /= (float)sum; }
    }
}

__device__ __forceinline__ float warpReduceMax(float val) {
    for (int offset = 16; offset > 0; offset /= 2) val = fmaxf(val, __shfl_xor_sync(0xFFFFFFFF, val, offset));
    return val;
}

__device__ __forceinline__ float warpReduceSum(float val) {
    for (int offset = 16; offset > 0; offset /= 2) val += __shfl_xor_sync(0xFFFFFFFF, val, offset);
    return val;
}

// A block a row: warps, then one value a warp in dynamic shared memory.
__global__ void softmax_block(floatX* __restrict__ out, const floatX* __restrict__ inp, int C, float inv_temperature)
{
    extern __shared__ float shared[];
    float* maxvals = shared;
    float* sumvals = shared + blockDim.x / 32;
    const int warpId = threadIdx.x / 32, laneId = threadIdx.x % 32, warps = blockDim.x / 32;
    const floatX* x = inp + (size_t)blockIdx.x * C;
    floatX* y = out + (size_t)blockIdx.x * C;

    float m = -INF;
    for (int i = threadIdx.x; i < C; i += blockDim.x) m = fmaxf(m, (float)x[i] * inv_temperature);
    m = warpReduceMax(m);
    if (laneId == 0) maxvals[warpId] = m;
    __syncthreads();
    m = warpReduceMax(laneId < warps ? maxvals[laneId] : -INF);

    float s = 0.0f;
    for (int i = threadIdx.x; i < C; i += blockDim.x) s += expf((float)x[i] * inv_temperature - m);
    s = warpReduceSum(s);
    if (laneId == 0) sumvals[warpId] = s;
    __syncthreads();
    s = warpReduceSum(laneId < warps ? sumvals[laneId] : 0.0f);

    for (int i = threadIdx.x; i < C; i += blockDim.x) y[i] = (floatX)(__expf((float)x[i] * inv_temperature - m) / s);
}

// One read of the input: maximum and sum travel as a pair, merged by an associative operator.
struct __align__(8) MD { float m; float d; };

__device__ MD combine(MD a, MD b)
{
    const bool a_bigger = a.m > b.m;
    const MD big = a_bigger ? a : b, small = a_bigger ? b : a;
    return MD{big.m, big.d + (small.d == 0.0f ? 0.0f : small.d * __expf(small.m - big.m))};
}

template <int ROWS_PER_BLOCK>
__global__ void online_softmax_warp(const float* x, float* y, int N, int C)
{
    const int row = blockIdx.x * ROWS_PER_BLOCK + threadIdx.y;
    if (row >= N) return;
    x += row * C;
    y += row * C;
    MD partial{-INF, 0.0f};
    for (int i = threadIdx.x; i < C; i += 32) partial = combine(partial, MD{x[i], 1.0f});
    #pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) {
        const MD other{__shfl_xor_sync(0xffffffff, partial.m, offset), __shfl_xor_sync(0xffffffff, partial.d, offset)};
        partial = combine(partial, other);
    }
    const float inv = __fdividef(1.0f, partial.d);
    for (int i = threadIdx.x; i < C; i += 32) y[i] = __expf(x[i] - partial.m) * inv;
}

// Over a whole vector by atomics: a float's bits, as an ordered unsigned, make a maximum; then the sum; then divide.
__device__ unsigned to_ordered(float f)
{
    unsigned u = __float_as_uint(f);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}
__device__ float from_ordered(unsigned u) { return __uint_as_float(u & 0x80000000u ? u & 0x7fffffffu : ~u); }

__global__ void softmax_atomic_max(const float* x, unsigned* max_bits, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicMax(max_bits, to_ordered(x[i]));
}

__global__ void softmax_atomic_sum(const float* x, float* e, const unsigned* max_bits, float* sum, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = 0.0f;
    if (i < n) e[i] = v = expf(x[i] - from_ordered(*max_bits));
    v = warpReduceSum(v);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, v);
}

__global__ void softmax_divide(float* e, const float* sum, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) e[i] /= *sum;
}

// dx = (dy - sum(dy * y)) * y, a warp a row.
__global__ void softmax_backward(const float* dy, const float* y, float* dx, int N, int C)
{
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (row >= N) return;
    float dot = 0;
    for (int i = lane; i < C; i += 32) dot += dy[row * C + i] * y[row * C + i];
    dot = warpReduceSum(dot);
    for (int i = lane; i < C; i += 32) dx[row * C + i] = (dy[row * C + i] - dot) * y[row * C + i];
}
