// Kernels whose blocks wait for each other: cooperative launches.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// Partial sums, then one block adds them up after the whole grid has arrived; the deviation in the same launch.
__global__ void mean_and_deviation(const float* x, double* partial, double* result, int n)
{
    __shared__ double part[4];
    cg::grid_group grid = cg::this_grid();
    cg::thread_block block = cg::this_thread_block();
    const auto block_sum = [&](double v) {
        for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
        block.sync();
        v = part[0] + part[1] + part[2] + part[3];
        block.sync();
        return v;
    };
    const auto grid_sum = [&](double v) {
        v = block_sum(v);
        if (block.thread_rank() == 0) partial[blockIdx.x] = v;
        grid.sync();
        double total = 0;
        for (int b = 0; b < gridDim.x; ++b) total += partial[b];
        grid.sync();
        return total;
    };
    double sum = 0, squares = 0;
    for (unsigned long long i = grid.thread_rank(); i < n; i += grid.size()) sum += x[i];
    const double mean = grid_sum(sum) / n;
    for (unsigned long long i = grid.thread_rank(); i < n; i += grid.size()) squares += (x[i] - mean) * (x[i] - mean);
    const double variance = grid_sum(squares) / (n - 1);
    if (grid.thread_rank() == 0) {
        result[0] = mean;
        result[1] = sqrt(variance);
    }
}

// Many steps of diffusion on a ring in one launch, two buffers by turns.
__global__ void diffuse(float *a, float *b, int n, int steps)
{
    auto g = cg::this_grid();
    for (int step = 0; step < steps; ++step) {
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
            b[i] = 0.5f * a[i] + 0.25f * (a[(i + 1) % n] + a[(i + n - 1) % n]);
        g.sync();
        float *t = a;
        a = b;
        b = t;
    }
}
