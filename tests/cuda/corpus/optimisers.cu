// One step of an optimiser, element by element.

// a + t (b - a) with two roundings.
__device__ inline float lerp_(float start, float end, float weight) { return fmaf(weight, end, fmaf(-weight, start, start)); }

__global__ void adamw_kernel(float* params_memory, const float* grads_memory, float* m_memory, float* v_memory, long num_parameters,
                             float learning_rate, float beta1, float beta2, float beta1_correction, float beta2_correction,
                             float eps, float weight_decay)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= num_parameters) return;
    float grad = grads_memory[i];
    float m = m_memory[i];
    float v = v_memory[i];
    m = lerp_(grad, m, beta1);
    m_memory[i] = m;
    v = lerp_(grad * grad, v, beta2);
    v_memory[i] = v;
    m /= beta1_correction;
    v /= beta2_correction;
    params_memory[i] -= learning_rate * (m / (sqrtf(v) + eps) + weight_decay * params_memory[i]);
}

struct SgdOptions { float lr, momentum, dampening; bool nesterov; };

__global__ void sgd_momentum(float* __restrict__ p, const float* __restrict__ g, float* __restrict__ buf, int n, const SgdOptions opt)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float b = opt.momentum * buf[i] + (1 - opt.dampening) * g[i];
        buf[i] = b;
        p[i] -= opt.lr * (opt.nesterov ? g[i] + opt.momentum * b : b);
    }
}

// The square of a gradient's norm, then the gradient scaled where it is too long.
__global__ void norm_squared(const float* data, double* out, size_t count)
{
    double acc = 0;
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x)
        acc += (double)data[i] * (double)data[i];
    for (int o = 16; o; o /= 2) acc += __shfl_down_sync(0xffffffff, acc, o);
    if ((threadIdx.x & 31) == 0) atomicAdd(out, acc);
}

__global__ void clip(float* data, const double* squared, float max_norm, size_t count)
{
    const float norm = (float)sqrt(*squared), scale = norm > max_norm ? max_norm / norm : 1.0f;
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) data[i] *= scale;
}

// Lion: the sign of an interpolation; copysignf for the sign of what is not zero.
__global__ void lion(float* p, const float* g, float* m, int n, float lr, float b1, float b2, float wd)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float c = b1 * m[i] + (1.0f - b1) * g[i];
        const float update = c == 0.0f ? 0.0f : copysignf(1.0f, c);
        p[i] = p[i] * (1.0f - lr * wd) - lr * update;
        m[i] = b2 * m[i] + (1.0f - b2) * g[i];
    }
}
