// Copies to shared memory that run while the block computes.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline.h>

namespace cg = cooperative_groups;

// Two buffers, 16 bytes a thread, the C-like primitives. M, N and K are multiples of the tile, 32 x 32 x 16.
__global__ void gemm_double_buffered(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ alignas(16) float As[2][32][16];
    __shared__ alignas(16) float Bs[2][16][32];
    const int tid = threadIdx.x;  // 128
    const int ty = tid / 16, tx = tid % 16;
    float acc[4][2] = {};

    auto fetch = [&](int stage, int k0) {
        const int ar = tid / 4, ac = tid % 4 * 4, br = tid / 8, bc = tid % 8 * 4;
        __pipeline_memcpy_async(&As[stage][ar][ac], &A[(blockIdx.y * 32 + ar) * K + k0 + ac], 16);
        __pipeline_memcpy_async(&Bs[stage][br][bc], &B[(k0 + br) * N + blockIdx.x * 32 + bc], 16);
        __pipeline_commit();
    };

    fetch(0, 0);
    for (int k0 = 0, stage = 0; k0 < K; k0 += 16, stage ^= 1) {
        if (k0 + 16 < K) {
            fetch(stage ^ 1, k0 + 16);
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();
        for (int k = 0; k < 16; ++k)
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 2; ++j) acc[i][j] += As[stage][ty * 4 + i][k] * Bs[stage][k][tx * 2 + j];
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 2; ++j) C[(blockIdx.y * 32 + ty * 4 + i) * N + blockIdx.x * 32 + tx * 2 + j] = acc[i][j];
}

// The C++ pipeline of a block: batches of a row are squared while the next ones arrive.
template <int kStages>
__global__ void row_square_sum(const int* in, int* out, int batches)
{
    extern __shared__ int shared[];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kStages> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    in += (size_t)blockIdx.x * batches * block.size();

    int sum = 0;
    for (int compute = 0, fetch = 0; compute < batches; ++compute) {
        for (; fetch < batches && fetch < compute + kStages; ++fetch) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, shared + fetch % kStages * block.size(), in + fetch * block.size(),
                               sizeof(int) * block.size(), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        const int v = shared[compute % kStages * block.size() + (block.thread_rank() + 1) % block.size()];
        sum += v * v;
        pipe.consumer_release();
    }
    atomicAdd(&out[blockIdx.x], sum);
}

// A barrier that counts the bytes of a copy and the threads that wait for it.
__global__ void reverse_blocks(const double* in, double* out)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ double tile[96];
    #pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier bar;
    auto block = cg::this_thread_block();
    if (block.thread_rank() == 0) init(&bar, block.size());
    block.sync();
    cuda::memcpy_async(block, tile, in + blockIdx.x * 96, sizeof(tile), bar);
    bar.arrive_and_wait();
    out[blockIdx.x * 96 + threadIdx.x] = tile[95 - threadIdx.x];
}

// cg::memcpy_async and cg::wait.
__global__ void rotate_rows(const float* x, float* y, int width, int by)
{
    extern __shared__ float row[];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, row, x + blockIdx.x * width, sizeof(float) * width);
    cg::wait(block);
    for (int i = block.thread_rank(); i < width; i += block.size()) y[blockIdx.x * width + i] = row[(i + by) % width];
}
