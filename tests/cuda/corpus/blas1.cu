// Vector operations, and a matrix times a vector.

#ifndef BLOCK_SIZE
#define BLOCK_SIZE 128
#endif
#define FULL_MASK 0xffffffffu

typedef struct { float c, s; } givens_t;

// The dot product of one block's part, then one atomic a block.
__global__ void dot_kernel(const float *a, const float *b, double *result, int n)
{
    __shared__ double cache[BLOCK_SIZE];
    int tid = threadIdx.x + blockIdx.x * blockDim.x;
    int cacheIndex = threadIdx.x;

    double temp = 0;
    while (tid < n) {
        temp += (double)a[tid] * b[tid];
        tid += blockDim.x * gridDim.x;
    }
    cache[cacheIndex] = temp;
    __syncthreads();

    int i = blockDim.x / 2;
    while (i != 0) {
        if (cacheIndex < i)
            cache[cacheIndex] += cache[cacheIndex + i];
        __syncthreads();
        i /= 2;
    }
    if (cacheIndex == 0) atomicAdd(result, cache[0]);
}

__global__ void daxpby(int n, double a, const double *x, int incx, double b, double *y, int incy)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i * incy] = a * x[i * incx] + b * y[i * incy];
}

__global__ void apply_rotation(float *x, float *y, int n, givens_t g)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        const float xi = x[i], yi = y[i];
        x[i] = g.c * xi + g.s * yi;
        y[i] = g.c * yi - g.s * xi;
    }
}

// One warp a row.
__global__ void gemv(const float *__restrict__ mat, const float *__restrict__ vec, float *__restrict__ out, int M, int N)
{
    const int lane = threadIdx.x & 31;
    const int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (row >= M) return;  // a whole warp
    float acc = 0.f;
    for (int j = lane; j < N; j += 32) acc += mat[row * N + j] * __ldg(vec + j);
    for (int d = 16; d; d >>= 1) acc += __shfl_down_sync(FULL_MASK, acc, d);
    if (lane == 0) out[row] = acc;
}
