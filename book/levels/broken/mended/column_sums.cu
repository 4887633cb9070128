// Sums of the 64 columns of x, each row on its way while the one
// before it is added.
#include <cuda_pipeline_primitives.h>

extern "C" __global__ void column_sums(
    const float* x, float* sums, int rows)
{
    __shared__ float row[2][64];
    int t = threadIdx.x;
    float sum = 0.0f;
    __pipeline_memcpy_async(&row[0][t], x + t, 4);
    __pipeline_commit();
    for (int k = 0; k < rows; ++k) {
        const float* next = x + (k + 1) * 64 + t;
        if (k + 1 < rows)
            __pipeline_memcpy_async(&row[1 - k % 2][t], next, 4);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        sum += row[k % 2][t];
    }
    sums[t] = sum;
}
