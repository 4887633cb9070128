// The same sum by the steps of every lecture on reductions.

// Interleaved addressing over dynamic shared memory.
__global__ void reduce0(const int *g_idata, int *g_odata, unsigned int n)
{
    extern __shared__ int sdata[];
    unsigned int tid = threadIdx.x;
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    sdata[tid] = (i < n) ? g_idata[i] : 0;
    __syncthreads();
    for (unsigned int s = 1; s < blockDim.x; s *= 2) {
        if (tid % (2 * s) == 0) {
            sdata[tid] += sdata[tid + s];
        }
        __syncthreads();
    }
    if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}

// Completely unrolled by a template; the last warp on its own.
template <class T, unsigned int blockSize>
__global__ void reduce6(const T *in, T *out, unsigned int n)
{
    __shared__ T sdata[blockSize];
    const unsigned tid = threadIdx.x, gridSize = blockSize * 2 * gridDim.x;
    T mySum = 0;
    for (unsigned i = blockIdx.x * (blockSize * 2) + tid; i < n; i += gridSize) {
        mySum += in[i];
        if (i + blockSize < n) mySum += in[i + blockSize];
    }
    sdata[tid] = mySum;
    __syncthreads();
    if (blockSize >= 512) { if (tid < 256) sdata[tid] = mySum = mySum + sdata[tid + 256]; __syncthreads(); }
    if (blockSize >= 256) { if (tid < 128) sdata[tid] = mySum = mySum + sdata[tid + 128]; __syncthreads(); }
    if (blockSize >= 128) { if (tid < 64) sdata[tid] = mySum = mySum + sdata[tid + 64]; __syncthreads(); }
    if (tid < 32) {
        if (blockSize >= 64) mySum += sdata[tid + 32];
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2) mySum += __shfl_down_sync(0xffffffff, mySum, offset);
    }
    if (tid == 0) out[blockIdx.x] = mySum;
}

// Within the last warp without shuffles: each read and write apart by __syncwarp.
__device__ void warpReduce(volatile float *s, int t)
{
    float v = s[t];
    v += s[t + 32]; __syncwarp(); s[t] = v; __syncwarp();
    v += s[t + 16]; __syncwarp(); s[t] = v; __syncwarp();
    v += s[t +  8]; __syncwarp(); s[t] = v; __syncwarp();
    v += s[t +  4]; __syncwarp(); s[t] = v; __syncwarp();
    v += s[t +  2]; __syncwarp(); s[t] = v; __syncwarp();
    v += s[t +  1]; __syncwarp(); s[t] = v; __syncwarp();
}

__global__ void row_mean(const float *x, float *mean, int cols)
{
    __shared__ float s[128];
    float a = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) a += x[blockIdx.x * cols + c];
    s[threadIdx.x] = a;
    __syncthreads();
    if (threadIdx.x < 64) s[threadIdx.x] += s[threadIdx.x + 64];
    __syncthreads();
    if (threadIdx.x < 32) warpReduce(s, threadIdx.x);
    if (threadIdx.x == 0) mean[blockIdx.x] = s[0] / cols;
}

// One launch: the block that comes last adds up what the others left.
__device__ unsigned int retirementCount = 0;

__global__ void sum_single_pass(const float *x, volatile float *partial, float *result, int n)
{
    __shared__ float buf[256];
    __shared__ bool amLast;
    const int tid = threadIdx.x;

    float v = 0;
    for (int i = blockIdx.x * blockDim.x + tid; i < n; i += gridDim.x * blockDim.x) v += x[i];
    buf[tid] = v;
    __syncthreads();
    for (int h = 128; h >= 1; h >>= 1) {
        if (tid < h) buf[tid] += buf[tid + h];
        __syncthreads();
    }
    if (tid == 0) {
        partial[blockIdx.x] = buf[0];
        __threadfence();
        unsigned int ticket = atomicInc(&retirementCount, gridDim.x);
        amLast = (ticket == gridDim.x - 1);
    }
    __syncthreads();
    if (!amLast) return;

    v = 0;
    for (int i = tid; i < gridDim.x; i += blockDim.x) v += partial[i];
    buf[tid] = v;
    __syncthreads();
    for (int h = 128; h >= 1; h >>= 1) {
        if (tid < h) buf[tid] += buf[tid + h];
        __syncthreads();
    }
    if (tid == 0) {
        *result = buf[0];
        retirementCount = 0;  // ready for the next launch
    }
}
