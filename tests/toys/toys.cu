// Kernels of the toys: one thread does one piece of work, of which there are `count`.

#include <cuda_bf16.h>

#include "philox.cuh"

// x: (B, S, H, D) in place; cos and sin: (S, D / 2).
template <typename T>
__global__ void rope(T *x, const float *cos, const float *sin, int S, int H, int D, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int half = D / 2, column = i % half, head = i / half, position = head / H % S;
    T *pair = x + head * D + column;
    float one = float(pair[0]), other = float(pair[half]);
    float c = cos[position * half + column], s = sin[position * half + column];
    pair[0] = T(one * c - other * s);
    pair[half] = T(other * c + one * s);
}

// q: (B, H, S, D), k: (B, kv_heads, S, D), y: (B, H, S).
template <typename T>
__global__ void grouped_scores(const T *q, const T *k, T *y, int H, int kv_heads, int S, int D, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int position = i % S, head = i / S % H, batch = i / S / H;
    const T *key = k + ((batch * kv_heads + head / (H / kv_heads)) * S + position) * D;
    float sum = 0;
    for (int d = 0; d < D; d++) sum += float(q[i * D + d]) * float(key[d]);
    y[i] = T(sum);
}

// x and codes: (M, N), scales: (M,).
template <typename T>
__global__ void quantize(const T *x, signed char *codes, float *scales, int N, int count) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= count) return;
    float largest = 1e-12f;
    for (int j = 0; j < N; j++) largest = fmaxf(largest, fabsf(float(x[row * N + j])));
    scales[row] = largest * (1.0f / 127);  // another rounding than PyTorch's
    for (int j = 0; j < N; j++) codes[row * N + j] = (signed char)(rintf(float(x[row * N + j]) / scales[row]));
}

template <typename T>
__global__ void dropout(const T *x, T *y, float p, unsigned long long seed, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = uniform(seed, i) >= p ? T(float(x[i]) / (1 - p)) : T(0.0f);
}
