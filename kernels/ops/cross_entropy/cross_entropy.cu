// Level 5: cross-entropy in CUDA C, forward and backward, for M rows of N columns. For each row with a target that is not
// ignored:
//
//     loss = lse - (1 - smoothing) * x[target] - smoothing * mean of x + z_loss * lse^2
//     dx = dloss * (exp(x - lse) * (1 + 2 * z_loss * lse) - (1 - smoothing) * [j = target] - smoothing / N)
//
// T is float, __half or __nv_bfloat16; the arithmetic is float, but lse is a double: of a float the gradient of large logits
// would have few right bits. Backward, SIZE values, a pack, are read at once: as many as one instruction can where rows lie so.

#include "packs.cuh"
#include "parts.cuh"

#include <assert.h>

// What the gradient needs of a row: exp(x - shift - rest) * p_factor is its first term, of which the others are subtracted.
struct alignas(8) Row {
    float shift, rest, p_factor, of_target, of_others;
    int target;  // BEYOND if it is none of the columns, IGNORED if the row is
    enum { BEYOND = -1, IGNORED = -2 };
};

// The gradients of a row's logits from column j on; of a row that is not kept, zeros.
template <typename T, int SIZE>
__device__ Floats<SIZE> gradients(Floats<SIZE> x, Row row, int j)
{
    if (row.target == Row::IGNORED) return {};
    const int at = row.target - j;
#pragma unroll
    for (int i = 0; i < SIZE; ++i) {
        const float other = i == at ? row.of_target : row.of_others;
        x.at[i] = exp_for<T>(x.at[i] - row.shift - row.rest) * row.p_factor - other;
    }
    return x;
}

// A row in 16-byte vectors, wherever it starts, and the values before and after them.
template <typename T>
struct Columns {
    static constexpr int SIZE = 16 / sizeof(T);
    const T* row;
    int before, vectors, beside;  // values before the vectors, vectors, and values that are in none of them

    __device__ Columns(const T* row, int N) : row(row)
    {
        before = min((int)((0 - (unsigned long long)row) % 16 / sizeof(T)), N);
        vectors = (N - before) / SIZE;
        beside = N - vectors * SIZE;
    }

    __device__ Pack<T, SIZE> vector(int k) const { return load_pack<SIZE>(row + before + k * SIZE); }
    __device__ T value_beside(int k) const { return row[k < before ? k : vectors * SIZE + k]; }
};

// What a thread finds: a Part, and the sum of how far its values are from one of the row; a mean far from 0 would cost bits.
template <typename T>
struct Found {
    Part part;
    float away = 0.0f;

    template <int SIZE>
    __device__ void add(Floats<SIZE> values, float from, bool smooth)
    {
        float largest = part.largest;
        for (int i = 0; i < SIZE; ++i) largest = fmaxf(largest, values.at[i]);
        part.sum *= exp_for<T>(part.largest - largest);
        part.largest = largest;
        for (int i = 0; i < SIZE; ++i) part.sum += exp_for<T>(values.at[i] - largest);
        if (!smooth) return;
        for (int i = 0; i < SIZE; ++i) away += values.at[i] - from;
    }
};

__device__ float finite(float value) { return fabsf(value) < INFINITY ? value : 0.0f; }

// Of a row of which all is found.
__device__ float loss_of(Part part, float log_sum, float at_target, float from, float away, int N, float smoothing,
                         float z_loss)
{
    const float whole = part.largest + log_sum;
    float loss = log_sum - (1.0f - smoothing) * (at_target - part.largest);
    if (smoothing > 0.0f) loss -= smoothing * (away / N + (from - part.largest));
    if (z_loss > 0.0f) loss += z_loss * whole * whole;
    return loss;
}

// ceil(M / blockDim.y) blocks of THREADS threads a row, VECTORS vectors each; blockDim.y is 1 if they are more than a warp. All
// of a row is asked for at once, before it is known whether it is ignored.
template <typename T, int VECTORS, int THREADS>
__global__ void __launch_bounds__(THREADS > 256 ? THREADS : 256)
    cross_entropy_short(const T* x, const long long* target, float* loss, double* lse, long long x_stride, long long M, int N,
                        long long ignore_index, float smoothing, float z_loss)
{
    __shared__ Part warp_parts[32];
    __shared__ float sums[32];
    // The rows of a warp go on together, whether or not the last of them are there: sums need all of its lanes.
    const long long i = (long long)blockIdx.x * blockDim.y + threadIdx.y, row = min(i, M - 1);
    x += row * x_stride;
    const Columns<T> columns(x, N);
    Pack<T, Columns<T>::SIZE> packs[VECTORS];
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        const int vector = k * THREADS + threadIdx.x;
        if (vector < columns.vectors) packs[k] = columns.vector(vector);
    }
    const bool has_beside = threadIdx.x < columns.beside, smooth = smoothing > 0.0f;
    const float beside = has_beside ? (float)columns.value_beside(threadIdx.x) : -INFINITY;
    const float from = smooth ? finite((float)x[0]) : 0.0f;
    const long long wanted = target[row];
    const bool kept = wanted != ignore_index;
    assert((!kept || (0 <= wanted && wanted < N)) && "target");
    const float at_target = kept ? (float)x[wanted] : 0.0f;

    Found<T> found;
    if (has_beside) found.add(Floats<1>{beside}, from, smooth);
#pragma unroll
    for (int k = 0; k < VECTORS; ++k)
        if (k * THREADS + threadIdx.x < columns.vectors) found.add(widened(packs[k]), from, smooth);

    constexpr int LANES = THREADS < 32 ? THREADS : 32;
    const Part part = THREADS > 32 ? block_joined(found.part, warp_parts) : joined<LANES>(found.part);
    const float away = smooth ? row_sum<LANES>(found.away, sums) : 0.0f;
    if (threadIdx.x > 0 || i >= M) return;
    const float log_sum = logf(part.sum);
    loss[row] = kept ? loss_of(part, log_sum, at_target, from, away, N, smoothing, z_loss) : 0.0f;
    if (lse) lse[row] = kept ? (double)part.largest + log_sum : 0.0;
}

// M blocks of THREADS threads. One pass gives loss and lse, which may be null; where dx is given, a second pass gives the
// gradient of the loss, times *scale, in packs of SIZE. dx may be x: each thread reads what it then writes.
constexpr int THREADS = 256;
template <typename T, int SIZE>
__global__ void __launch_bounds__(THREADS, 5)
    cross_entropy_online(const T* x, const long long* target, float* loss, double* lse, const float* scale, T* dx,
                         long long x_stride, int N, long long ignore_index, float smoothing, float z_loss)
{
    __shared__ Part warp_parts[32];
    __shared__ float sums[32];
    const long long row = blockIdx.x, wanted = target[row];
    x += row * x_stride;
    if (dx) dx += row * N;
    if (wanted == ignore_index) {  // nothing is read
        if (threadIdx.x == 0) loss[row] = 0.0f;
        if (threadIdx.x == 0 && lse) lse[row] = 0.0;
        for (int j = threadIdx.x * SIZE; dx && j < N; j += THREADS * SIZE) store_floats(dx + j, Floats<SIZE>{});
        return;
    }
    assert(0 <= wanted && wanted < N && "target");
    const bool smooth = smoothing > 0.0f;
    const float at_target = (float)x[wanted], from = finite((float)x[0]);

    constexpr int AT_ONCE = 4;  // vectors on their way
    const Columns<T> columns(x, N);
    Found<T> found;
    if (threadIdx.x < columns.beside) found.add(Floats<1>{(float)columns.value_beside(threadIdx.x)}, from, smooth);
    for (int first = threadIdx.x; first < columns.vectors; first += THREADS * AT_ONCE) {
        Pack<T, columns.SIZE> packs[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            const int vector = first + k * THREADS;
            if (vector < columns.vectors) packs[k] = columns.vector(vector);
        }
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k)
            if (first + k * THREADS < columns.vectors) found.add(widened(packs[k]), from, smooth);
    }
    const Part part = block_joined(found.part, warp_parts);
    const float log_sum = logf(part.sum), whole = part.largest + log_sum;
    const float away = smooth ? row_sum(found.away, sums) : 0.0f;
    if (threadIdx.x == 0) {
        loss[row] = loss_of(part, log_sum, at_target, from, away, N, smoothing, z_loss);
        if (lse) lse[row] = (double)part.largest + log_sum;
    }
    if (!dx) return;

    const float factor = *scale, evenly = smoothing / N;
    const float p_factor = factor * (z_loss > 0.0f ? 1.0f + 2.0f * z_loss * whole : 1.0f) / part.sum;
    const Row of = {part.largest, 0.0f, p_factor, factor * (1.0f - smoothing + evenly), factor * evenly, (int)wanted};
    __syncthreads();  // x[target] and x[0] have been read, should dx be x
    for (int j = threadIdx.x * SIZE; j < N; j += THREADS * SIZE)
        store_floats(dx + j, gradients<T>(load_floats<SIZE>(x + j), of, j));
}

// x and dx have N columns of the classes, from the first on; dx may be x. `evenly` is smoothing / classes. The M * N values are
// divided as if they were one row: a thread has PACKS packs of SIZE of them, blockDim.x packs apart, and a pack may have the
// end of a row and the start of the next, unless x_stride is not N. SIZE is at most N. The dynamic shared memory has a Row for
// each row of the block.
template <typename T, int SIZE, int PACKS>
__global__ void cross_entropy_backward(const float* dloss, const T* x, const long long* targets, const double* lse, T* dx,
                                       long long x_stride, long long M, int N, long long ignore_index, float smoothing,
                                       float evenly, float z_loss, int first)
{
    extern __shared__ Row rows[];
    const int most = blockDim.x * SIZE * PACKS;
    const long long start = (long long)blockIdx.x * most, start_row = start / N;
    const unsigned beyond = (unsigned)(start - start_row * N);
    const int count = (int)min((long long)most, M * N - start), row_count = (beyond + count - 1) / N + 1;
    Pack<T, SIZE> packs[PACKS] = {};
    auto load_packs = [&] {
#pragma unroll
        for (int k = 0; k < PACKS; ++k) {
            const int at = (k * blockDim.x + threadIdx.x) * SIZE;
            if (at >= count) return;
            const int row = (beyond + at) / N, j = (beyond + at) % N;
            const T* from = x + (start_row + row) * x_stride + j;
            if (at + SIZE > count) {
#pragma unroll
                for (int i = 0; i < SIZE; ++i)
                    if (at + i < count) ((T*)&packs[k].bits)[i] = from[i];
            } else if (PACKS == 1 || rows[row].target != Row::IGNORED || j + SIZE > N) {
                packs[k] = load_pack<SIZE>(from);
            }
        }
    };
    // Of a row that is not kept x is not read, unless that would keep a thread's only load waiting.
    if (PACKS == 1) load_packs();
    for (int r = threadIdx.x; r < row_count; r += blockDim.x) {
        const long long target = targets[start_row + r];
        const double exact = lse[start_row + r];
        const float factor = dloss[start_row + r], shift = (float)exact;
        const bool here = first <= target && target < (long long)first + N;
        const int column = target == ignore_index ? Row::IGNORED : here ? (int)(target - first) : Row::BEYOND;
        rows[r] = {shift, (float)(exact - shift), factor * (1.0f + 2.0f * z_loss * shift),
                   factor * (1.0f - smoothing + evenly), factor * evenly, column};
    }
    __syncthreads();
    if (PACKS > 1) load_packs();
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
        const int at = (k * blockDim.x + threadIdx.x) * SIZE;
        if (at >= count) return;
        const int row = (beyond + at) / N, j = (beyond + at) % N, next = N - j;  // where in the pack the next row starts
        const Floats<SIZE> values = widened(packs[k]);
        Floats<SIZE> slopes = gradients<T>(values, rows[row], j);
        if (next < SIZE && row + 1 < row_count) {
            const Floats<SIZE> others = gradients<T>(values, rows[row + 1], -next);
#pragma unroll
            for (int i = 0; i < SIZE; ++i)
                if (i >= next) slopes.at[i] = others.at[i];
        }
        T* to = dx + start + at;
        if (at + SIZE <= count) {
            store_floats(to, slopes);
        } else {
#pragma unroll
            for (int i = 0; i < SIZE; ++i)
                if (at + i < count) to[i] = (T)slopes.at[i];
        }
    }
}
