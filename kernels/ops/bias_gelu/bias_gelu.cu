// Level 5: bias and GELU in CUDA C, y = gelu(x + bias), and their backward, for M rows of N columns.
//
// A thread keeps SIZE neighbouring columns, and so their bias, and takes rows of them. A block is (columns / SIZE, rows)
// threads.

#include "activations.cuh"
#include "packs.cuh"

// SIZE values from number j on, of a vector of `width` that begins anew where it ends.
template <int SIZE, typename T>
__device__ Floats<SIZE> load_around(const T* vector, int j, int width)
{
    Floats<SIZE> values;
    int column = j % width;
    for (int k = 0; k < SIZE; ++k) {
        values.at[k] = (float)vector[column];
        if (++column == width) column = 0;
    }
    return values;
}

// gridDim.x blocks side by side, and one above the other in both other dimensions: no division keeps the loads waiting. A thread
// has ROWS rows, a block's height apart: so many loads are on their way, for one of the bias. JOINED: a row here is several of the
// matrix, each `width` wide, and of one after the last, `rest` elements are there.
template <typename T, int SIZE, int ACTIVATION, int ROWS, bool JOINED>
__global__ void bias_gelu_packs(const T* x, const T* bias, T* y, long long x_stride, long long M, int N, int width, int rest)
{
    const int j = (blockIdx.x * blockDim.x + threadIdx.x) * SIZE;
    const long long first = (long long)(blockIdx.z * gridDim.y + blockIdx.y) * ROWS * blockDim.y + threadIdx.y;
    if (j >= N || first >= M + JOINED) return;  // who goes later would keep the bias waiting for the rows
    Pack<T, SIZE> rows[ROWS], bias_pack;
    if (!JOINED) bias_pack = load_pack<SIZE>(bias + j);
    for (int r = 0; r < ROWS; ++r) {
        long long i = first + r * blockDim.y;
        if (i < M) rows[r] = load_pack<SIZE>(x + i * x_stride + j);
    }
    const Floats<SIZE> biases = JOINED ? load_around<SIZE>(bias, j, width) : widened(bias_pack);
    for (int r = 0; r < ROWS; ++r) {
        long long i = first + r * blockDim.y;
        const bool last = JOINED && i == M;
        if (i >= M && !last) return;
        Floats<SIZE> row = widened(rows[r]);
        if (last)
            for (int k = 0; k < SIZE; ++k) row.at[k] = j + k < rest ? (float)x[i * x_stride + j + k] : 0.0f;
        for (int k = 0; k < SIZE; ++k) row.at[k] = activated<T, ACTIVATION>(row.at[k] + biases.at[k]).value;
        if (!last) {
            store_floats(y + i * N + j, row);
            continue;
        }
        for (int k = 0; k < SIZE && j + k < rest; ++k) y[i * N + j + k] = (T)row.at[k];
        return;
    }
}

// A warp that has several rows of its columns adds them up itself, in pairs: so many in a chain would each be rounded. All lanes
// must come, and blockDim.x is a power of two.
template <int SIZE>
__device__ void met_in_warp(Floats<SIZE>& sums)
{
    for (int lanes = 16; lanes >= blockDim.x; lanes /= 2)
        for (int k = 0; k < SIZE; ++k) sums.at[k] += __shfl_xor_sync(0xffffffff, sums.at[k], lanes);
}

// dx and dbias of few rows, of which a thread has one: little code, all loads are asked for at once, and there is no second
// kernel. blockDim.x and blockDim.y, at least M, are powers of two, whole warps together and at most 512 threads.
template <typename T, int SIZE, int ACTIVATION>
__global__ void bias_gelu_backward_few(const T* dy, const T* x, const T* bias, T* dx, T* dbias, long long dy_stride,
                                       long long x_stride, int M, int N)
{
    __shared__ Floats<SIZE> parts[512];
    const int j = (blockIdx.x * blockDim.x + threadIdx.x) * SIZE;
    const long long i = threadIdx.y;
    Floats<SIZE> sums = {};
    Pack<T, SIZE> dy_pack = {}, x_pack = {}, bias_pack = {};
    const bool there = (i < M) & (j < N);
    if (there) {
        dy_pack = load_pack<SIZE>(dy + i * dy_stride + j);
        x_pack = load_pack<SIZE>(x + i * x_stride + j);
        bias_pack = load_pack<SIZE>(bias + j);
    }
    __syncthreads();  // compilers move no load behind a barrier: none waits for a value
    if (there) {
        const Floats<SIZE> wide = widened(dy_pack), row = widened(x_pack), biases = widened(bias_pack);
        for (int k = 0; k < SIZE; ++k)
            sums.at[k] = wide.at[k] * activated<T, ACTIVATION>(row.at[k] + biases.at[k]).slope;
        store_floats(dx + i * N + j, sums);
    }
    met_in_warp(sums);
    parts[threadIdx.y * blockDim.x + threadIdx.x] = sums;
    __syncthreads();
    if (i > 0 || j >= N) return;
    const int rows_of_warp = blockDim.x < 32 ? 32 / blockDim.x : 1;
    for (int below = rows_of_warp; below < blockDim.y; below += rows_of_warp)
        for (int k = 0; k < SIZE; ++k) sums.at[k] += parts[below * blockDim.x + threadIdx.x].at[k];
    store_floats(dbias + j, sums);
}

// dx = dy * gelu'(x + bias). A row here may be several of the matrix, joined, each `width` wide; then `rest` elements of the
// matrix fill no such row. partial, G×1×N, is what each of G = gridDim.y blocks one above the other has of the sums of its
// columns; where one block has all, partial is null, and the sums are dbias. A thread has so many rows AT_ONCE.
// blockDim.x * blockDim.y is 256.
template <typename T, int SIZE, int ACTIVATION, int AT_ONCE>
__global__ void bias_gelu_backward_packs(const T* dy, const T* x, const T* bias, T* dx, float* partial, T* dbias,
                                         long long dy_stride, long long x_stride, long long M, int N, int width, int rest)
{
    __shared__ Floats<SIZE> thread_parts[256];
    const int j = (blockIdx.x * blockDim.x + threadIdx.x) * SIZE;
    Floats<SIZE> sums = {};
    if (j < N) {
        const Floats<SIZE> biases = load_around<SIZE>(bias, j, width);
        const int apart = gridDim.y * blockDim.y;
        for (long long first = blockIdx.y * blockDim.y + threadIdx.y; first < M; first += AT_ONCE * apart) {
            // All loads before the first store: the compiler cannot know that dx overlaps none of them.
            Pack<T, SIZE> dys[AT_ONCE], rows[AT_ONCE];
#pragma unroll
            for (int r = 0; r < AT_ONCE; ++r) {
                const long long i = first + r * apart;
                if (i < M) {
                    dys[r] = load_pack<SIZE>(dy + i * dy_stride + j);
                    rows[r] = load_pack<SIZE>(x + i * x_stride + j);
                }
            }
#pragma unroll
            for (int r = 0; r < AT_ONCE; ++r) {
                const long long i = first + r * apart;
                if (i >= M) break;
                Floats<SIZE> wide = widened(dys[r]), row = widened(rows[r]);
                for (int k = 0; k < SIZE; ++k) {
                    row.at[k] = wide.at[k] * activated<T, ACTIVATION>(row.at[k] + biases.at[k]).slope;
                    sums.at[k] += row.at[k];
                }
                store_floats(dx + i * N + j, row);
            }
        }
        if (blockIdx.y == gridDim.y - 1 && threadIdx.y == 0) {
#pragma unroll
            for (int k = 0; k < SIZE; ++k) {
                if (j + k >= rest) break;
                const float x_value = (float)x[M * x_stride + j + k], dy_value = (float)dy[M * dy_stride + j + k];
                const float dx_value = dy_value * activated<T, ACTIVATION>(x_value + biases.at[k]).slope;
                sums.at[k] += dx_value;
                dx[M * N + j + k] = (T)dx_value;
            }
        }
    }
    met_in_warp(sums);
    const int rows_of_warp = blockDim.x < 32 ? 32 / blockDim.x : 1;
    thread_parts[threadIdx.y * blockDim.x + threadIdx.x] = sums;
    __syncthreads();
    if (threadIdx.y > 0 || j >= N) return;
    for (int above = rows_of_warp; above < blockDim.y; above += rows_of_warp)
        for (int k = 0; k < SIZE; ++k) sums.at[k] += thread_parts[above * blockDim.x + threadIdx.x].at[k];
    if (!partial) return store_floats(dbias + j, sums);
    for (int k = 0; k < SIZE; ++k) partial[(long long)blockIdx.y * N + j + k] = sums.at[k];
}
