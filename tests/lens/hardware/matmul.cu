// C = A B for square matrices of n x n floats, blocks of TILE x TILE threads.

// One thread an element; the inner loop reads a row of A and a column of B.
__global__ void naive(const float* A, const float* B, float* C, int n)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < n; ++k) {
        float a = A[row * n + k];
        float b = B[k * n + column];
        sum += a * b;
    }
    C[row * n + column] = sum;
}

// Unrolled as the compiler likes: neighbouring reads of A stay apart, since n is not known.
__global__ void naive_unrolled(const float* A, const float* B, float* C, int n)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        float a = A[row * n + k];
        float b = B[k * n + column];
        sum += a * b;
    }
    C[row * n + column] = sum;
}

// Tiles in shared memory, the inner loop kept as a loop.
template <int TILE>
__global__ void tiled(const float* A, const float* B, float* C, int n)
{
    __shared__ float As[TILE][TILE], Bs[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
    float sum = 0.0f;
#pragma unroll 1
    for (int left = 0; left < n; left += TILE) {
        As[ty][tx] = A[row * n + left + tx];
        Bs[ty][tx] = B[(left + ty) * n + column];
        __syncthreads();
#pragma unroll 1
        for (int k = 0; k < TILE; ++k) {
            float a = As[ty][k];
            float b = Bs[k][tx];
            sum += a * b;
        }
        __syncthreads();
    }
    C[row * n + column] = sum;
}

// The inner loop unrolled: reads of As that are neighbours may become one of 16 bytes.
template <int TILE>
__global__ void tiled_unrolled(const float* A, const float* B, float* C, int n)
{
    __shared__ float As[TILE][TILE], Bs[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
    float sum = 0.0f;
    for (int left = 0; left < n; left += TILE) {
        As[ty][tx] = A[row * n + left + tx];
        Bs[ty][tx] = B[(left + ty) * n + column];
        __syncthreads();
        for (int k = 0; k < TILE; ++k) {
            sum += As[ty][k] * Bs[k][tx];
        }
        __syncthreads();
    }
    C[row * n + column] = sum;
}

// A is stored transposed in the tile, one word a row longer: no reads can be merged.
template <int TILE>
__global__ void tiled_transposed(const float* A, const float* B, float* C, int n)
{
    __shared__ float As[TILE][TILE + 1], Bs[TILE][TILE + 1];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
    float sum = 0.0f;
#pragma unroll 1
    for (int left = 0; left < n; left += TILE) {
        As[tx][ty] = A[row * n + left + tx];
        Bs[ty][tx] = B[(left + ty) * n + column];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; ++k) {
            float a = As[k][ty];
            float b = Bs[k][tx];
            sum += a * b;
        }
        __syncthreads();
    }
    C[row * n + column] = sum;
}
