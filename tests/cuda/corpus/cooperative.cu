// Cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;
using namespace cooperative_groups;

// A sum over whatever group it is given.
__device__ int reduce_sum(thread_group g, int *temp, int val)
{
    int lane = g.thread_rank();
    for (int i = g.size() / 2; i > 0; i /= 2) {
        temp[lane] = val;
        g.sync();
        if (lane < i) val += temp[lane + i];
        g.sync();
    }
    return val;
}

__global__ void sum_kernel_block(int *sum, const int *input, int n)
{
    extern __shared__ int temp[];
    int my_sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) my_sum += input[i];
    auto g = this_thread_block();
    int block_sum = reduce_sum(g, temp, my_sum);
    if (g.thread_rank() == 0) atomicAdd(sum, block_sum);
}

// Tiles of any size by shuffles.
template <int tile_sz>
__global__ void tile_means(const float* x, float* means, int n)
{
    auto tile = tiled_partition<tile_sz>(this_thread_block());
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float val = i < n ? x[i] : 0.0f;
    for (int o = tile.size() / 2; o > 0; o /= 2) val += tile.shfl_down(val, o);
    if (tile.thread_rank() == 0 && i < n) means[i / tile_sz] = val / tile_sz;
}

// The threads that are here, whoever they are, share one atomic.
__device__ int atomicAggInc(int* counter)
{
    auto g = cg::coalesced_threads();
    int warp_res;
    if (g.thread_rank() == 0) warp_res = atomicAdd(counter, g.size());
    return g.shfl(warp_res, 0) + g.thread_rank();
}

__global__ void filter_positive(float* dst, int* count, const float* src, int n)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n) return;
    if (src[i] > 0) dst[atomicAggInc(count)] = src[i];
}

// Layer norm of a row a warp with cg::reduce, as meta groups of a block.
__global__ void layernorm_forward_cg(float* __restrict__ out, float* __restrict__ mean, float* __restrict__ rstd,
                                     const float* __restrict__ inp, const float* __restrict__ weight,
                                     const float* __restrict__ bias, int N, int C) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    int idx = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
    if (idx >= N) { return; }
    const float* x = inp + idx * C;

    float sum = 0.0f;
    for (int i = warp.thread_rank(); i < C; i += warp.size()) { sum += x[i]; }
    sum = cg::reduce(warp, sum, cg::plus<float>{});
    float m = sum / C;
    if (warp.thread_rank() == 0 && mean != nullptr) { __stcs(mean + idx, m); }

    sum = 0.0f;
    for (int i = warp.thread_rank(); i < C; i += warp.size()) {
        float diff = x[i] - m;
        sum += diff * diff;
    }
    sum = cg::reduce(warp, sum, cg::plus<float>{});
    float s = rsqrtf(sum / C + 1e-5f);
    if (warp.thread_rank() == 0 && rstd != nullptr) { __stcs(rstd + idx, s); }

    float* o = out + idx * C;
    for (int c = warp.thread_rank(); c < C; c += warp.size()) {
        float n = s * (__ldcs(x + c) - m);
        __stcs(o + c, n * weight[c] + bias[c]);
    }
}

// Scans and other operators of a tile.
__global__ void tile_scans(const int* x, int* inclusive, int* exclusive, int* largest)
{
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    const int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
    inclusive[i] = cg::inclusive_scan(tile, v);
    exclusive[i] = cg::exclusive_scan(tile, v, cg::plus<int>());
    largest[i] = cg::reduce(tile, v, cg::greater<int>());
}

// Lanes with the same key act together: one atomic a key.
__global__ void count_by_key(const int* keys, int* counts, int n)
{
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        auto here = cg::coalesced_threads();
        auto same = cg::labeled_partition(here, keys[i]);
        if (same.thread_rank() == 0) atomicAdd(&counts[keys[i]], (int)same.num_threads());
    }
}
