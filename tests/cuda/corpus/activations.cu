// GELU, SwiGLU and biases, forward and backward.
#include <cuda_fp16.h>

#define GELU_SCALING_FACTOR 0.7978845608028654f  // sqrt(2 / pi)
typedef float floatX;

__global__ void gelu_forward_kernel(floatX* out, const floatX* inp, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) {
        float xi = inp[i];
        float cube = 0.044715f * xi * xi * xi;
        out[i] = 0.5f * xi * (1.0f + tanhf(GELU_SCALING_FACTOR * (xi + cube)));
    }
}

__global__ void gelu_backward_inplace(floatX* d_in_out, const floatX* inp, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    float x = (float)inp[i];
    float cube = 0.044715f * x * x * x;
    float tanh_arg = GELU_SCALING_FACTOR * (x + cube);
    float tanh_out = tanhf(tanh_arg);
    float coshf_out = coshf(tanh_arg);
    float sech_out = 1.0f / (coshf_out * coshf_out);
    float local_grad = 0.5f * (1.0f + tanh_out) + x * 0.5f * sech_out * GELU_SCALING_FACTOR * (1.0f + 3.0f * 0.044715f * x * x);
    d_in_out[i] = (floatX)(local_grad * (float)d_in_out[i]);
}

// Bias and exact GELU over pairs of half.
__global__ void bias_gelu_half2(const __half2* __restrict__ x, const __half2* __restrict__ bias, __half2* __restrict__ y, int pairs, int columns)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < pairs; i += blockDim.x * gridDim.x) {
        float2 v = __half22float2(__hadd2(x[i], bias[i % columns]));
        v.x *= normcdff(v.x);
        v.y = 0.5f * v.y * (1.0f + erff(v.y * rsqrtf(2.0f)));
        y[i] = __float22half2_rn(v);
    }
}

template <typename scalar_t>
__device__ __forceinline__ scalar_t silu(scalar_t z) { return z / (scalar_t(1) + exp(-z)); }

// x is (tokens, 2 * d): silu of the first half times the second.
template <typename scalar_t, scalar_t (*ACT_FN)(scalar_t)>
__global__ void act_and_mul(scalar_t* __restrict__ out, const scalar_t* __restrict__ input, const int d)
{
    const long long token = blockIdx.x;
    for (int idx = threadIdx.x; idx < d; idx += blockDim.x) {
        const scalar_t gate = __ldg(&input[token * 2 * d + idx]), up = __ldg(&input[token * 2 * d + d + idx]);
        out[token * d + idx] = ACT_FN(gate) * up;
    }
}

__global__ void swiglu_backward(const float* dout, const float* x, float* dx, int tokens, int d)
{
    const int col = blockIdx.x * blockDim.x + threadIdx.x, token = blockIdx.y;
    if (col >= d) return;
    const float g = x[token * 2 * d + col], u = x[token * 2 * d + d + col], dy = dout[token * d + col];
    const float sig = 1.0f / (1.0f + __expf(-g));
    dx[token * 2 * d + col] = dy * u * sig * (1.0f + g * (1.0f - sig));
    dx[token * 2 * d + d + col] = dy * g * sig;
}

// The gradient of a bias: columns summed, 32 a block, rows over threadIdx.y.
__global__ void bias_backward(const float* dout, float* dbias, int rows, int OC)
{
    __shared__ float smem[8][33];
    const int col = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    if (col < OC)
        for (int r = threadIdx.y; r < rows; r += blockDim.y) sum += dout[r * OC + col];
    smem[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && col < OC) {
        for (int j = 1; j < blockDim.y; j++) sum += smem[j][threadIdx.x];
        dbias[col] += sum;
    }
}
