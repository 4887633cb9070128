// Normalisations over rows, channels and groups; forward and backward.
#include <cuda_bf16.h>

__device__ inline float warp_sum(float v)
{
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

// Sixteen bytes of whatever type, loaded and stored as one int4.
template <class ElementType>
struct alignas(16) Packed128 {
    Packed128() = default;
    __device__ explicit Packed128(int4 bits) { memcpy(&payload, &bits, sizeof(bits)); }
    __device__ ElementType& operator[](int i) { return payload[i]; }
    __device__ const ElementType& operator[](int i) const { return payload[i]; }
    __device__ int4 get_bits() const { int4 bits; memcpy(&bits, &payload, sizeof(bits)); return bits; }
    static constexpr const size_t size = sizeof(int4) / sizeof(ElementType);
    ElementType payload[size];
};
template <class T> __device__ Packed128<T> load128cs(const T* p) { return Packed128<T>{__ldcs(reinterpret_cast<const int4*>(p))}; }
template <class T> __device__ Packed128<T> load128(const T* p) { return Packed128<T>{*reinterpret_cast<const int4*>(p)}; }
template <class T> __device__ void store128(T* p, Packed128<T> v) { *reinterpret_cast<int4*>(p) = v.get_bits(); }

// A warp a row, blockDim.y rows a block; the row stays in shared memory between the passes.
template <typename T>
__global__ void layernorm_forward_packed(T* out, float* mean, float* rstd, const T* inp, const T* weight, const T* bias, int N, int C)
{
    using x128 = Packed128<T>;
    extern __shared__ char params[];
    x128* s_weight = reinterpret_cast<x128*>(params);
    x128* s_bias = reinterpret_cast<x128*>(params) + C / x128::size;
    x128* s_in = reinterpret_cast<x128*>(params) + (2 + threadIdx.y) * (C / x128::size);

    const int sidx = (threadIdx.x + 32 * threadIdx.y) * x128::size;
    for (int i = sidx; i < C; i += blockDim.y * 32 * x128::size) {
        s_weight[i / x128::size] = load128(weight + i);
        s_bias[i / x128::size] = load128(bias + i);
    }
    __syncthreads();

    const int idx = blockIdx.x * blockDim.y + threadIdx.y;
    if (idx >= N) return;
    inp += idx * C;
    out += idx * C;
    float sum = 0.0f;
    for (int c = threadIdx.x * x128::size; c < C; c += 32 * x128::size) {
        const x128 data = load128cs(inp + c);
        for (int k = 0; k < x128::size; ++k) sum += (float)data[k];
        s_in[c / x128::size] = data;
    }
    const float m = warp_sum(sum) / C;
    float v = 0.f;
    for (int c = threadIdx.x * x128::size; c < C; c += 32 * x128::size) {
        const x128 data = s_in[c / x128::size];
        for (int k = 0; k < x128::size; ++k) v += ((float)data[k] - m) * ((float)data[k] - m);
    }
    const float s = rsqrtf(warp_sum(v) / C + 1e-5f);
    for (int c = threadIdx.x * x128::size; c < C; c += 32 * x128::size) {
        const x128 data = s_in[c / x128::size], w = s_weight[c / x128::size], b = s_bias[c / x128::size];
        x128 result;
        for (int k = 0; k < x128::size; ++k) result[k] = (T)(s * ((float)data[k] - m) * (float)w[k] + (float)b[k]);
        store128(out + c, result);
    }
    if (threadIdx.x == 0) {
        if (mean != nullptr) __stcs(mean + idx, m);
        if (rstd != nullptr) __stcs(rstd + idx, s);
    }
}

// Gradients of weight and bias gathered in shared memory, then added to global memory once a block.
__global__ void layernorm_backward(float* dinp, float* dweight, float* dbias, const float* dout, const float* inp,
                                   const float* weight, const float* mean, const float* rstd, int N, int C)
{
    extern __shared__ float shared[];
    float* dweight_shared = shared;
    float* dbias_shared = shared + C;
    for (int i = threadIdx.x; i < 2 * C; i += blockDim.x) shared[i] = 0.0f;
    __syncthreads();

    const int lane = threadIdx.x % warpSize, warps = gridDim.x * blockDim.x / warpSize;
    for (int row = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize; row < N; row += warps) {
        const float *dy = dout + row * C, *x = inp + row * C;
        const float m = mean[row], r = rstd[row];
        float dnorm_mean = 0.0f, dnorm_norm_mean = 0.0f;
        for (int i = lane; i < C; i += warpSize) {
            const float norm = (x[i] - m) * r, dnorm = weight[i] * dy[i];
            dnorm_mean += dnorm;
            dnorm_norm_mean += dnorm * norm;
        }
        dnorm_mean = warp_sum(dnorm_mean) / C;
        dnorm_norm_mean = warp_sum(dnorm_norm_mean) / C;
        for (int i = lane; i < C; i += warpSize) {
            const float norm = (x[i] - m) * r, dnorm = weight[i] * dy[i];
            atomicAdd(&dbias_shared[i], dy[i]);
            atomicAdd(&dweight_shared[i], norm * dy[i]);
            dinp[row * C + i] += (dnorm - dnorm_mean - norm * dnorm_norm_mean) * r;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < C; i += blockDim.x) {
        atomicAdd(&dbias[i], dbias_shared[i]);
        atomicAdd(&dweight[i], dweight_shared[i]);
    }
}

// RMS norm with the residual added first, in place, bfloat16.
__global__ void fused_add_rms_norm(__nv_bfloat16* __restrict__ input, __nv_bfloat16* __restrict__ residual,
                                   const __nv_bfloat16* __restrict__ weight, const float epsilon, const int hidden_size)
{
    __shared__ float s_variance, s_part[32];
    float variance = 0.0f;
    for (int idx = threadIdx.x; idx < hidden_size; idx += blockDim.x) {
        __nv_bfloat16 z = __hadd(input[blockIdx.x * hidden_size + idx], residual[blockIdx.x * hidden_size + idx]);
        float x = __bfloat162float(z);
        variance += x * x;
        residual[blockIdx.x * hidden_size + idx] = z;
    }
    variance = warp_sum(variance);
    if (threadIdx.x % 32 == 0) s_part[threadIdx.x / 32] = variance;
    __syncthreads();
    if (threadIdx.x < 32) {
        variance = warp_sum(threadIdx.x < blockDim.x / 32 ? s_part[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0) s_variance = rsqrtf(variance / hidden_size + epsilon);
    }
    __syncthreads();
    for (int idx = threadIdx.x; idx < hidden_size; idx += blockDim.x) {
        float x = __bfloat162float(residual[blockIdx.x * hidden_size + idx]);
        input[blockIdx.x * hidden_size + idx] = __float2bfloat16(x * s_variance * __bfloat162float(weight[idx]));
    }
}

// Batch norm in training over (N, C, L): Welford's count, mean and m2 merged across a block; one channel a block.
struct WelfordData { float mean, m2, count; };

__device__ WelfordData welford_merge(const WelfordData& a, const WelfordData& b)
{
    const float n = a.count + b.count, delta = b.mean - a.mean;
    if (n == 0.f) return a;
    return {a.mean + delta * b.count / n, a.m2 + b.m2 + delta * delta * a.count * b.count / n, n};
}

__global__ void batch_norm_train(const float* x, float* y, float* running_mean, float* running_var, int N, int C, int L, float eps, float momentum)
{
    __shared__ WelfordData buf[128];
    const int c = blockIdx.x;
    WelfordData w{0.f, 0.f, 0.f};
    for (int i = threadIdx.x; i < N * L; i += blockDim.x) {
        const float v = x[(i / L * C + c) * L + i % L];
        w.count += 1.f;
        const float delta = v - w.mean;
        w.mean += delta / w.count;
        w.m2 += delta * (v - w.mean);
    }
    buf[threadIdx.x] = w;
    for (unsigned s = blockDim.x >> 1; s; s >>= 1) {
        __syncthreads();
        if (threadIdx.x < s) buf[threadIdx.x] = welford_merge(buf[threadIdx.x], buf[threadIdx.x + s]);
    }
    __syncthreads();
    const auto [mu, m2, count] = buf[0];
    const float inv = rsqrtf(m2 / count + eps);
    for (int i = threadIdx.x; i < N * L; i += blockDim.x) {
        const int at = (i / L * C + c) * L + i % L;
        y[at] = (x[at] - mu) * inv;
    }
    if (threadIdx.x == 0) {
        running_mean[c] = (1 - momentum) * running_mean[c] + momentum * mu;
        running_var[c] = (1 - momentum) * running_var[c] + momentum * m2 / (count - 1);
    }
}
