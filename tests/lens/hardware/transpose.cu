// Transposing a matrix of `rows` x `columns`, blocks of 32 x 8 threads for tiles of 32 x 32, or one thread an element.

// Reads along rows, writes along columns.
__global__ void naive_write(const float* in, float* out, int rows, int columns)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns) {
        float value = in[row * columns + column];
        out[column * rows + row] = value;
    }
}

// Reads along columns, writes along rows.
__global__ void naive_read(const float* in, float* out, int rows, int columns)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns) {
        float value = in[row * columns + column];
        out[column * rows + row] = value;
    }
}

// Through a tile in shared memory whose rows are 32 + PAD floats.
template <int PAD>
__global__ void tiled(const float* in, float* out, int rows, int columns)
{
    __shared__ float tile[32][32 + PAD];
    int column = blockIdx.x * 32 + threadIdx.x, top = blockIdx.y * 32;
    for (int j = threadIdx.y; j < 32; j += 8) {
        if (top + j < rows && column < columns) {
            tile[j][threadIdx.x] = in[(top + j) * columns + column];
        }
    }
    __syncthreads();
    int row = blockIdx.y * 32 + threadIdx.x, left = blockIdx.x * 32;
    for (int j = threadIdx.y; j < 32; j += 8) {
        if (left + j < columns && row < rows) {
            out[(left + j) * rows + row] = tile[threadIdx.x][j];
        }
    }
}

// The same with one element a thread: blocks of 32 x 32.
template <int PAD>
__global__ void tiled_whole(const float* in, float* out, int n)
{
    __shared__ float tile[32][32 + PAD];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[y * n + x];
    __syncthreads();
    int tx = blockIdx.y * 32 + threadIdx.x, ty = blockIdx.x * 32 + threadIdx.y;
    out[ty * n + tx] = tile[threadIdx.x][threadIdx.y];
}

// Columns exchanged by an exclusive or instead of padding.
__global__ void tiled_swizzled(const float* in, float* out, int n)
{
    __shared__ float tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x ^ threadIdx.y] = in[y * n + x];
    __syncthreads();
    int tx = blockIdx.y * 32 + threadIdx.x, ty = blockIdx.x * 32 + threadIdx.y;
    out[ty * n + tx] = tile[threadIdx.x][threadIdx.x ^ threadIdx.y];
}
