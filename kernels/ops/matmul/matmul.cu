// Level 5: y_b = x_b @ w_b for B products of M×K and K×N matrices, in CUDA C. Rungs, plain to best:
//
//     matmul_element    one thread an element of y; neighbouring threads below each other.
//     matmul_coalesced  neighbouring threads beside each other, so that what they read of w lies together.
//     matmul_shared     a block copies tiles of x and w into shared memory, which all of its threads read.
//     matmul_registers  a thread has 4×4 elements: what it reads from shared memory it uses four times.
//
// T is float, __half or __nv_bfloat16; sums are float. x and w may have any strides, y is contiguous.

#include "epilogue.cuh"

// The first rungs have a thread for each element of y. Every addition is rounded to the size of its sum: 32 products are added up
// before they join a long one.
template <typename T>
__device__ float dot(const T* x, const T* w, int K, long long x_column, long long w_row)
{
    float sum = 0.0f, part = 0.0f;
    for (int k = 0; k < K; ++k) {
        part += (float)x[k * x_column] * (float)w[k * w_row];
        if (k % 32 == 31) sum += part, part = 0.0f;
    }
    return sum + part;
}

template <typename T>
__global__ void matmul_element(const T* x, const T* w, const T* bias, const T* dy, T* y, int B, int M, int N, int K,
                               long long x_batch, long long x_row, long long x_column, long long w_batch,
                               long long w_row, long long w_column, int gelu)
{
    long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    int i = thread % M, j = thread / M % N;
    long long b = thread / M / N, at = (b * M + i) * N + j;
    if (b >= B) return;
    float h = dot(x + b * x_batch + i * x_row, w + b * w_batch + j * w_column, K, x_column, w_row);
    y[at] = epilogue(h, bias, dy, at, j, gelu);
}

template <typename T>
__global__ void matmul_coalesced(const T* x, const T* w, const T* bias, const T* dy, T* y, int B, int M, int N, int K,
                                 long long x_batch, long long x_row, long long x_column, long long w_batch,
                                 long long w_row, long long w_column, int gelu)
{
    long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    int i = at / N % M, j = at % N;
    long long b = at / N / M;
    if (b >= B) return;
    float h = dot(x + b * x_batch + i * x_row, w + b * w_batch + j * w_column, K, x_column, w_row);
    y[at] = epilogue(h, bias, dy, at, j, gelu);
}

// Where a block's tile of ROWS×COLUMNS elements of y starts, and in which product.
struct Tile {
    long long b;
    int i, j;

    __device__ Tile(int M, int N, int ROWS, int COLUMNS)
    {
        int across = (N + COLUMNS - 1) / COLUMNS, down = (M + ROWS - 1) / ROWS;
        b = blockIdx.x / ((long long)across * down);
        i = blockIdx.x / across % down * ROWS;
        j = blockIdx.x % across * COLUMNS;
    }
};

// A tile of SIDE×SIDE elements, a thread each.
template <typename T>
__global__ void __launch_bounds__(1024)
    matmul_shared(const T* x, const T* w, const T* bias, const T* dy, T* y, int B, int M, int N, int K,
                  long long x_batch, long long x_row, long long x_column, long long w_batch, long long w_row,
                  long long w_column, int gelu)
{
    constexpr int SIDE = 32;
    __shared__ T xs[SIDE][SIDE], ws[SIDE][SIDE];
    const Tile tile(M, N, SIDE, SIDE);
    const int i = tile.i + threadIdx.y, j = tile.j + threadIdx.x;
    x += tile.b * x_batch + i * x_row;
    w += tile.b * w_batch + j * w_column;

    float sum = 0.0f;
    for (int k = 0; k < K; k += SIDE) {
        // Beyond the matrices there are zeros, which add nothing.
        xs[threadIdx.y][threadIdx.x] = i < M && k + threadIdx.x < K ? x[(k + threadIdx.x) * x_column] : (T)0.0f;
        ws[threadIdx.y][threadIdx.x] = j < N && k + threadIdx.y < K ? w[(k + threadIdx.y) * w_row] : (T)0.0f;
        __syncthreads();
        float tile_sum = 0.0f;
        for (int inner = 0; inner < SIDE; ++inner) tile_sum += (float)xs[threadIdx.y][inner] * (float)ws[inner][threadIdx.x];
        sum += tile_sum;
        __syncthreads();  // before the tiles are overwritten
    }
    const long long at = (tile.b * M + i) * N + j;
    if (i < M && j < N) y[at] = epilogue(sum, bias, dy, at, j, gelu);
}

// A tile of 64×64 elements; thread (tx, ty) of 16×16 has those at rows ty + 16r and columns tx + 16c.
template <typename T>
__global__ void __launch_bounds__(256)
    matmul_registers(const T* x, const T* w, const T* bias, const T* dy, T* y, int B, int M, int N, int K,
                     long long x_batch, long long x_row, long long x_column, long long w_batch, long long w_row,
                     long long w_column, int gelu)
{
    constexpr int SIDE = 64, DEPTH = 16, EACH = 4;
    __shared__ float xs[DEPTH][SIDE + 1], ws[DEPTH][SIDE + 1];  // + 1: filling takes two passes at most
    const Tile tile(M, N, SIDE, SIDE);
    const int thread = threadIdx.y * 16 + threadIdx.x;
    x += tile.b * x_batch + tile.i * x_row;
    w += tile.b * w_batch + tile.j * w_column;

    float sums[EACH][EACH] = {};
    for (int k = 0; k < K; k += DEPTH) {
        for (int at = thread; at < SIDE * DEPTH; at += 256) {
            // Neighbouring threads take neighbouring elements in memory, whichever way the matrix lies.
            int r = x_column == 1 ? at / DEPTH : at % SIDE, inner = x_column == 1 ? at % DEPTH : at / SIDE;
            bool inside = tile.i + r < M && k + inner < K;
            xs[inner][r] = inside ? (float)x[r * x_row + (k + inner) * x_column] : 0.0f;
        }
        for (int at = thread; at < SIDE * DEPTH; at += 256) {
            int c = w_row == 1 ? at / DEPTH : at % SIDE, inner = w_row == 1 ? at % DEPTH : at / SIDE;
            bool inside = tile.j + c < N && k + inner < K;
            ws[inner][c] = inside ? (float)w[(k + inner) * w_row + c * w_column] : 0.0f;
        }
        __syncthreads();
        float tile_sum[EACH][EACH] = {};
        for (int inner = 0; inner < DEPTH; ++inner) {
            float x_fragment[EACH], w_fragment[EACH];
            for (int r = 0; r < EACH; ++r) x_fragment[r] = xs[inner][threadIdx.y + 16 * r];
            for (int c = 0; c < EACH; ++c) w_fragment[c] = ws[inner][threadIdx.x + 16 * c];
            for (int r = 0; r < EACH; ++r)
                for (int c = 0; c < EACH; ++c) tile_sum[r][c] += x_fragment[r] * w_fragment[c];
        }
        for (int r = 0; r < EACH; ++r)
            for (int c = 0; c < EACH; ++c) sums[r][c] += tile_sum[r][c];
        __syncthreads();
    }
    for (int r = 0; r < EACH; ++r)
        for (int c = 0; c < EACH; ++c) {
            int i = tile.i + threadIdx.y + 16 * r, j = tile.j + threadIdx.x + 16 * c;
            long long at = (tile.b * M + i) * N + j;
            if (i < M && j < N) y[at] = epilogue(sums[r][c], bias, dy, at, j, gelu);
        }
}
