// Level 5: RMS norm in CUDA C, backward, for many narrow rows, one behind the other, that are no whole vectors.
// rms_backward.cuh has the formulas; layer_norm_backward_narrow.cu is the same for layer norm.
//
// Loads as narrow as such rows' alignment would take one warp a row or more. Here a block copies some rows of dy and x into shared
// memory, and dx back, as whole vectors, wherever in them a row ends; in between, a row is shared by a few lanes, which read it
// value by value. They keep their columns from row to row, and with them the sums for dweight.

#include "reductions.cuh"
#include "rms_row.cuh"
#include "vector_copy.cuh"

// Blocks of (LANES, THREADS / LANES) threads, which have CHUNK rows at a time, a multiple of Vector::SIZE, so that they start at a
// multiple of 16 bytes. VALUES is what a lane has of a row, up to 4. partial is G×1×N for G blocks. 2 * CHUNK * N values of dynamic
// shared memory.
template <typename T, int LANES, int VALUES, int THREADS, int CHUNK>
__global__ void __launch_bounds__(THREADS)
    rms_norm_backward_narrow(const T* dy, const T* x, const T* weight, T* dx, float* partial, long long M, int N, float eps)
{
    extern __shared__ uint4 shared[];
    __shared__ float meeting[VALUES][THREADS];
    T *xs = (T*)shared, *dys = xs + CHUNK * N;
    const int thread = threadIdx.y * LANES + threadIdx.x;
    const float share = __fdividef(1.0f, N);
    auto column = [&](int v) { return (int)threadIdx.x + v * LANES; };
    float weights[VALUES], dweights[VALUES] = {};
    for (int v = 0; v < VALUES; ++v) weights[v] = weight && column(v) < N ? (float)weight[column(v)] : 1.0f;

    for (long long start = (long long)blockIdx.x * CHUNK; start < M; start += (long long)gridDim.x * CHUNK) {
        const int rows = min(M - start, (long long)CHUNK);
        begin_copy(x + start * N, xs, rows * N);
        begin_copy(dy + start * N, dys, rows * N);
        __pipeline_wait_prior(0);
        __syncthreads();
        for (int row = threadIdx.y; row < CHUNK; row += THREADS / LANES) {  // sums need all lanes of a warp
            auto has = [&](int v) { return row < rows && column(v) < N; };
            float values[VALUES], gradients[VALUES], squares = 0.0f, products = 0.0f;
            for (int v = 0; v < VALUES; ++v) {
                values[v] = has(v) ? (float)xs[row * N + column(v)] : 0.0f;
                gradients[v] = has(v) ? (float)dys[row * N + column(v)] : 0.0f;
                squares += values[v] * values[v];
                products += gradients[v] * weights[v] * values[v];
            }
            const RmsRow common(warp_sum<LANES>(squares) * share, warp_sum<LANES>(products) * share, N, eps);
            for (int v = 0; v < VALUES; ++v) {
                if (!has(v)) continue;
                const float n = values[v] * common.rstd;
                dweights[v] += gradients[v] * n;
                xs[row * N + column(v)] = (T)(common.scale * (gradients[v] * weights[v] - n * common.gn));
            }
        }
        __syncthreads();
        copy_vectors((const T*)xs, dx + start * N, rows * N);
        __syncthreads();
    }

    for (int v = 0; v < VALUES; ++v) {
        // A warp that has several rows adds them up itself, in pairs: so many in a chain would each be rounded.
        for (int lanes = LANES; lanes < 32; lanes *= 2) dweights[v] += __shfl_xor_sync(0xffffffff, dweights[v], lanes);
        meeting[v][thread] = dweights[v];
    }
    __syncthreads();
    for (int v = threadIdx.y; v < VALUES; v += THREADS / LANES) {
        float sum = 0.0f;
        for (int at = threadIdx.x; at < THREADS; at += 32) sum += meeting[v][at];
        if (column(v) < N) partial[(long long)blockIdx.x * N + column(v)] = sum;
    }
}
