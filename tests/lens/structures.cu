// Copies of structures, and loads in branches: what compilers take apart, put together or move. (1,), (32,): x, y.

#define I (blockIdx.x * blockDim.x + threadIdx.x)
struct alignas(8) Pair { float first, second; };
struct Sphere { float x, y, z, radius; };
template <class T> __device__ T read(const T* from) { return *from; }

extern "C" __global__ void one_member(const float4* x, float* y) { float4 v = x[I]; y[I] = v.x; }
extern "C" __global__ void one_member_of_bytes(const uchar4* x, float* y) { uchar4 v = x[I]; y[I] = v.x + v.w; }
extern "C" __global__ void returned(const float4* x, float* y) { float4 v = read(x + I); y[I] = v.x + v.w; }
extern "C" __global__ void in_a_lambda(const float2* x, float* y) {
    auto at = [&](int k) { return x[I + k]; };
    y[I] = at(0).x + at(1).y;
}
extern "C" __global__ void read_twice(const float2* x, float* y) { float2 v = x[I], w = x[I]; y[I] = v.x + w.y; }
extern "C" __global__ void in_braces(const float* x, float4* y) { y[I] = {x[I], x[I + 1], 1, 2}; }
extern "C" __global__ void named(const float* x, float2* y) { float2 v = {x[I], 2}; y[I] = v; }
extern "C" __global__ void made(const float* x, float4* y) { y[I] = make_float4(x[I], x[I + 1], 1, 2); }
extern "C" __global__ void made_of_three(const float3* x, float3* y) { y[I] = make_float3(x[I].z, x[I].y, x[I].x); }
extern "C" __global__ void lower_alignment(const Sphere* x, Sphere* y) { y[I] = x[I]; }
extern "C" __global__ void vectors_in_an_array(const float* x, float2* y) {
    __shared__ float tile[32][6];
    for (int k = 0; k < 6; ++k) tile[threadIdx.x][k] = x[k];
    const int k = 2 * (threadIdx.x % 2);
    const Pair v = reinterpret_cast<Pair&>(tile[threadIdx.x][k]);
    y[I] = {v.first, v.second};
    y[I + 32] = reinterpret_cast<float2&>(tile[threadIdx.x][k + 2]);
}
extern "C" __global__ void one_arm(const float* x, float* y) {
    float v = x[I];
    if (threadIdx.x & 1) v = x[I + 32];
    y[I] = v;
}
extern "C" __global__ void both_arms(const float* x, float* y) { y[I] = threadIdx.x & 1 ? x[I] : x[I + 32]; }
extern "C" __global__ void both_arms_write(const float* x, float* y) {
    if (threadIdx.x & 1) y[I] = x[I];
    else y[I + 32] = x[I];
}
extern "C" __global__ void one_load_for_two(const float* x, float* y) { y[I] = fmaxf(x[I], 1) + x[I]; }
// Loads that nothing in a loop changes: a compiler has them before it.
extern "C" __global__ void taken_out_of_a_loop(const float* __restrict__ x, float* __restrict__ y) {
    float sum = 0;
    for (int k = 0; k < 8; ++k) {
        sum += y[64 + k] * x[I];
        sum += read(x + I / 2);
        sum += __ldg(x + 64);
        if (k > 5)
            sum += x[32 + I / 8];
    }
    y[I] = sum;
}
extern "C" __global__ void searched(const float* x, float* y) {
    int low = 0, high = 256;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (x[middle] <= x[I]) low = middle;
        else high = middle;
    }
    y[I] = low;
}
