// Level 5: layer norm in CUDA C, backward, for many narrow rows, one behind the other, that are no whole vectors.
// The formulas stand in layer_norm_backward.cu.
//
// Loads as narrow as such rows' alignment would take one warp a row or more. Here a block copies some rows of dy and x into shared
// memory, and dx back, as whole vectors, wherever in them a row ends; in between, a row is shared by a few lanes, which read it
// value by value. They keep their columns from row to row, and with them the sums for dweight and dbias.

#include "reductions.cuh"
#include "vector_copy.cuh"

// Blocks of (LANES, THREADS / LANES) threads, which have CHUNK rows at a time, a multiple of Vector::SIZE, so that they start at a
// multiple of 16 bytes. VALUES is what a lane has of a row, up to 4. partial is G×2×N for G blocks. 2 * CHUNK * N values of dynamic
// shared memory.
template <typename T, int LANES, int VALUES, int THREADS, int CHUNK>
__global__ void __launch_bounds__(THREADS)
    layer_norm_backward_narrow(const T* dy, const T* x, const T* weight, T* dx, float* partial, long long M, int N, float eps)
{
    extern __shared__ uint4 shared[];
    __shared__ float meeting[VALUES][THREADS];
    T *xs = (T*)shared, *dys = xs + CHUNK * N;
    const int thread = threadIdx.y * LANES + threadIdx.x;
    auto column = [&](int v) { return (int)threadIdx.x + v * LANES; };
    float weights[VALUES], dweights[VALUES] = {}, dbiases[VALUES] = {};
    for (int v = 0; v < VALUES; ++v) weights[v] = weight && column(v) < N ? (float)weight[column(v)] : 1.0f;

    for (long long start = (long long)blockIdx.x * CHUNK; start < M; start += (long long)gridDim.x * CHUNK) {
        const int rows = min(M - start, (long long)CHUNK);
        begin_copy(x + start * N, xs, rows * N);
        begin_copy(dy + start * N, dys, rows * N);
        __pipeline_wait_prior(0);
        __syncthreads();
        for (int row = threadIdx.y; row < CHUNK; row += THREADS / LANES) {  // sums need all lanes of a warp
            auto has = [&](int v) { return row < rows && column(v) < N; };
            float values[VALUES], gradients[VALUES], sum = 0.0f, rests = 0.0f, squares = 0.0f, g_sum = 0.0f, gc_sum = 0.0f;
            for (int v = 0; v < VALUES; ++v) {
                values[v] = has(v) ? (float)xs[row * N + column(v)] : 0.0f;
                gradients[v] = has(v) ? (float)dys[row * N + column(v)] : 0.0f;
                sum += values[v];
            }
            const float near = warp_sum<LANES>(sum) / N;
            // What the rounded mean is off, which a mean far from 0 makes large, is the mean of what is left.
            for (int v = 0; v < VALUES; ++v) {
                if (has(v)) values[v] -= near;
                rests += values[v];
            }
            const float rest = warp_sum<LANES>(rests) / N;
            for (int v = 0; v < VALUES; ++v) {
                const float centred = has(v) ? values[v] - rest : 0.0f, g = __fmul_rn(gradients[v], weights[v]);
                values[v] = centred;
                squares += centred * centred;
                g_sum += g;
                gc_sum += g * centred;
            }
            const float rstd = rsqrtf(warp_sum<LANES>(squares) / N + eps);
            const float g_mean = warp_sum<LANES>(g_sum) / N, gn_mean = warp_sum<LANES>(gc_sum) * rstd / N;
            for (int v = 0; v < VALUES; ++v) {
                if (!has(v)) continue;
                const float n = values[v] * rstd;
                dweights[v] += gradients[v] * n;
                dbiases[v] += gradients[v];
                // The product is rounded: fused, it would leave its rounding where it equals the mean.
                xs[row * N + column(v)] = (T)(rstd * (__fmul_rn(gradients[v], weights[v]) - g_mean - n * gn_mean));
            }
        }
        __syncthreads();
        copy_vectors((const T*)xs, dx + start * N, rows * N);
        __syncthreads();
    }

    auto put = [&](const float (&sums)[VALUES], float* to) {
        for (int v = 0; v < VALUES; ++v) meeting[v][thread] = sums[v];
        __syncthreads();
        for (int v = threadIdx.y; v < VALUES; v += THREADS / LANES) {
            float sum = 0.0f;
            for (int at = threadIdx.x; at < THREADS; at += LANES) sum += meeting[v][at];
            if (column(v) < N) to[column(v)] = sum;
        }
        __syncthreads();
    };
    put(dweights, partial + 2ll * blockIdx.x * N);
    put(dbiases, partial + (2ll * blockIdx.x + 1) * N);
}
