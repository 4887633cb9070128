// Operations on rows: softmax, scans, root mean square, rotary positions, sorting in a block.

#include <cuda_fp16.h>

// Softmax of a row, one block a row: three passes and two reductions in shared memory.
__global__ void softmax(const float* x, float* y, int N)
{
    extern __shared__ float partial[];
    x += (long long)blockIdx.x * N;
    y += (long long)blockIdx.x * N;
    int t = threadIdx.x;
    float most = -1e30f;
#pragma unroll 1
    for (int j = t; j < N; j += blockDim.x) {
        most = fmaxf(most, x[j]);
    }
    partial[t] = most;
    __syncthreads();
#pragma unroll 1
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) {
            float mine = partial[t];
            float other = partial[t + half];
            partial[t] = fmaxf(mine, other);
        }
        __syncthreads();
    }
    most = partial[0];
    __syncthreads();
    float sum = 0.0f;
#pragma unroll 1
    for (int j = t; j < N; j += blockDim.x) {
        sum += expf(x[j] - most);
    }
    partial[t] = sum;
    __syncthreads();
#pragma unroll 1
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) {
            float mine = partial[t];
            float other = partial[t + half];
            partial[t] = mine + other;
        }
        __syncthreads();
    }
    sum = partial[0];
#pragma unroll 1
    for (int j = t; j < N; j += blockDim.x) {
        y[j] = expf(x[j] - most) / sum;
    }
}

// Softmax of a row of at most 32 halves by one warp; several rows a block.
__global__ void warp_softmax(const __half* x, __half* y, int M, int N)
{
    int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= M) return;
    float value = -1e30f;
    if (lane < N) {
        value = __half2float(x[row * N + lane]);
    }
    float most = value;
    for (int offset = 16; offset > 0; offset /= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, offset));
    }
    float power = lane < N ? expf(value - most) : 0.0f;
    float sum = power;
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, offset);
    }
    if (lane < N) {
        y[row * N + lane] = __float2half(power / sum);
    }
}

// Inclusive scan of each block: Hillis and Steele, two buffers.
__global__ void scan_two_buffers(const int* x, int* y)
{
    __shared__ int buffer[2][256];
    int t = threadIdx.x, from = 0;
    buffer[0][t] = x[blockIdx.x * 256 + t];
    __syncthreads();
#pragma unroll 1
    for (int offset = 1; offset < 256; offset *= 2) {
        int value = buffer[from][t];
        if (t >= offset) {
            value += buffer[from][t - offset];
        }
        buffer[1 - from][t] = value;
        from = 1 - from;
        __syncthreads();
    }
    y[blockIdx.x * 256 + t] = buffer[from][t];
}

// Exclusive scan of each block: Blelloch, up and down a tree in place, with its bank conflicts.
__global__ void scan_tree(const int* x, int* y)
{
    __shared__ int tree[512];
    int t = threadIdx.x, base = blockIdx.x * 512;
    tree[2 * t] = x[base + 2 * t];
    tree[2 * t + 1] = x[base + 2 * t + 1];
    int offset = 1;
#pragma unroll 1
    for (int active = 256; active > 0; active /= 2) {
        __syncthreads();
        if (t < active) {
            int left = offset * (2 * t + 1) - 1, right = offset * (2 * t + 2) - 1;
            tree[right] += tree[left];
        }
        offset *= 2;
    }
    if (t == 0) {
        tree[511] = 0;
    }
#pragma unroll 1
    for (int active = 1; active < 512; active *= 2) {
        offset /= 2;
        __syncthreads();
        if (t < active) {
            int left = offset * (2 * t + 1) - 1, right = offset * (2 * t + 2) - 1;
            int kept = tree[left];
            int sum = tree[right];
            tree[left] = sum;
            tree[right] = sum + kept;
        }
    }
    __syncthreads();
    y[base + t] = tree[t];
    y[base + 256 + t] = tree[t + 256];
}

// Root mean square norm, one warp a row, four floats a lane at a time.
__global__ void rms_norm(const float4* x, const float4* weight, float4* y, int M, int N4, float eps)
{
    int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= M) return;
    float sum = 0.0f;
#pragma unroll 1
    for (int j = lane; j < N4; j += 32) {
        float4 v = x[row * N4 + j];
        sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, offset);
    }
    float scale = rsqrtf(sum / (4 * N4) + eps);
#pragma unroll 1
    for (int j = lane; j < N4; j += 32) {
        float4 v = x[row * N4 + j];
        float4 w = weight[j];
        y[row * N4 + j] = make_float4(v.x * scale * w.x, v.y * scale * w.y, v.z * scale * w.z, v.w * scale * w.w);
    }
}

// Rotary positions on neighbouring pairs: rows of D floats, one block a row, in place.
__global__ void rope(float2* x, const float* cosines, const float* sines, int pairs)
{
    int row = blockIdx.x, j = threadIdx.x;
    if (j < pairs) {
        float c = cosines[row * pairs + j];
        float s = sines[row * pairs + j];
        float2 v = x[row * pairs + j];
        x[row * pairs + j] = make_float2(v.x * c - v.y * s, v.x * s + v.y * c);
    }
}

// Bitonic sort of 256 keys a block.
__global__ void bitonic(int* keys)
{
    __shared__ int s[256];
    int t = threadIdx.x;
    s[t] = keys[blockIdx.x * 256 + t];
    __syncthreads();
#pragma unroll 1
    for (int size = 2; size <= 256; size *= 2) {
#pragma unroll 1
        for (int stride = size / 2; stride > 0; stride /= 2) {
            int other = t ^ stride;
            if (other > t) {
                int a = s[t];
                int b = s[other];
                if ((a > b) == ((t & size) == 0)) {
                    s[t] = b;
                    s[other] = a;
                }
            }
            __syncthreads();
        }
    }
    keys[blockIdx.x * 256 + t] = s[t];
}

// A polynomial whose coefficients the compiler keeps: the read inside the loop does not depend on it.
__global__ void horner(const float* x, const float* __restrict__ scale, float* __restrict__ y, int degree, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = x[i], sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < degree; ++k) {
        sum = sum * value + scale[0];
    }
    y[i] = sum;
}
