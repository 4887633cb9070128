// One thread, one element; and the ways people make each thread do more.

extern "C" __global__ void vecAdd(const float *A, const float *B, float *C, int N)
{
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < N) {
        C[i] = A[i] + B[i];
    }
}

// Grid-stride: any grid will do.
__global__ void saxpy(size_t n, float alpha, const float* __restrict__ x, float* __restrict__ y) {
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += stride)
        y[i] = alpha * x[i] + y[i];
}

template <typename T>
struct Clamp {
    T low, high;
    __device__ __forceinline__ T operator()(T v) const { return v < low ? low : (v > high ? high : v); }
};

struct SmoothStep {
    __device__ float operator()(float t) const {
        const float c = Clamp<float>{0.0f, 1.0f}(t);
        return c * c * (3.0f - 2.0f * c);
    }
};

template <typename T, typename Op>
__global__ void transform(const T* in, T* out, unsigned count, Op op = Op()) {
    for (auto i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) out[i] = op(in[i]);
}

// Four floats a load; the last thread takes what is left over.
__global__ void leaky_relu_vec4(const float* x, float* y, int n, float slope)
{
    auto act = [slope](float v) { return v > 0.f ? v : slope * v; };
    const int idx = blockIdx.x * blockDim.x + threadIdx.x;
    const int n4 = n >> 2;
    if (idx < n4) {
        float4 v = reinterpret_cast<const float4*>(x)[idx];
        v.x = act(v.x); v.y = act(v.y); v.z = act(v.z); v.w = act(v.w);
        reinterpret_cast<float4*>(y)[idx] = v;
    }
    if (idx == n4)
        for (int i = n4 * 4; i < n; ++i) y[i] = act(x[i]);
}

// A two-dimensional grid over a pitched image of doubles.
__global__ void hypot2d(const double* u, const double* v, double* w, int rows, int cols, int pitch)
{
    const int c = threadIdx.x + blockIdx.x * blockDim.x, r = threadIdx.y + blockIdx.y * blockDim.y;
    if (r >= rows || c >= cols) return;
    w[r * pitch + c] = sqrt(u[r * pitch + c] * u[r * pitch + c] + v[r * pitch + c] * v[r * pitch + c]);
}
