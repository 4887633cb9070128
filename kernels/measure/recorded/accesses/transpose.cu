// out = the transpose of the n x n matrix `in`, n a multiple of 32. Blocks of 32 x 8 threads, each for a tile of 32 x 32.

// Reads along rows; neighbouring threads write n floats apart.
__global__ void transpose_strided_writes(const float* in, float* out, int n)
{
    int column = blockIdx.x * 32 + threadIdx.x, top = blockIdx.y * 32;
#pragma unroll
    for (int j = threadIdx.y; j < 32; j += 8) {
        out[column * n + top + j] = in[(top + j) * n + column];
    }
}

// Writes along rows; neighbouring threads read n floats apart.
__global__ void transpose_strided_reads(const float* in, float* out, int n)
{
    int column = blockIdx.x * 32 + threadIdx.x, top = blockIdx.y * 32;
#pragma unroll
    for (int j = threadIdx.y; j < 32; j += 8) {
        out[(top + j) * n + column] = in[column * n + top + j];
    }
}

// Reads and writes along rows, through a tile in shared memory.
// Its columns are read 32 floats apart.
__global__ void transpose_tile(const float* in, float* out, int n)
{
    __shared__ float tile[32][32];
    int left = blockIdx.x * 32, top = blockIdx.y * 32, lane = threadIdx.x;
#pragma unroll
    for (int j = threadIdx.y; j < 32; j += 8) {
        tile[j][lane] = in[(top + j) * n + left + lane];
    }
    __syncthreads();
#pragma unroll
    for (int j = threadIdx.y; j < 32; j += 8) {
        out[(left + j) * n + top + lane] = tile[lane][j];
    }
}

// Rows of 33 floats: a column is read 33 floats apart.
__global__ void transpose_padded(const float* in, float* out, int n)
{
    __shared__ float tile[32][33];
    int left = blockIdx.x * 32, top = blockIdx.y * 32, lane = threadIdx.x;
#pragma unroll
    for (int j = threadIdx.y; j < 32; j += 8) {
        tile[j][lane] = in[(top + j) * n + left + lane];
    }
    __syncthreads();
#pragma unroll
    for (int j = threadIdx.y; j < 32; j += 8) {
        out[(left + j) * n + top + lane] = tile[lane][j];
    }
}

// Rows of 32, each with its columns exchanged in another way.
__global__ void transpose_swizzled(const float* in, float* out, int n)
{
    __shared__ float tile[32][32];
    int left = blockIdx.x * 32, top = blockIdx.y * 32, lane = threadIdx.x;
#pragma unroll
    for (int j = threadIdx.y; j < 32; j += 8) {
        tile[j][lane ^ j] = in[(top + j) * n + left + lane];
    }
    __syncthreads();
#pragma unroll
    for (int j = threadIdx.y; j < 32; j += 8) {
        out[(left + j) * n + top + lane] = tile[lane][lane ^ j];
    }
}
