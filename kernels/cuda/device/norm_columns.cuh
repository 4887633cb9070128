// dweight and dbias of a norm over rows: what each block of some rows has to give to them, which column_sums.cuh adds up.
#pragma once

// With n_ij = (x_ij - mean_i) * rstd_i: sum_i dy_ij * n_ij and, where there is a BIAS, sum_i dy_ij. statistics is the mean
// and rstd of each row; partial is G×2×N, or G×1×N without a bias. A thread owns a column: (ceil(N / 32), G) blocks of
// (32, 8) threads, of which those with the same threadIdx.x share a column and take every (8 * G)-th row. Where G is 1, partial
// is null and the sums go to dweight and dbias themselves, unless these are null.
template <bool BIAS, typename T>
__device__ void norm_columns(const T* dy, const T* x, const float2* statistics, float* partial, T* dweight, T* dbias,
                             long long dy_stride, long long x_stride, long long M, int N)
{
    __shared__ float2 sums[8][32];
    int j = blockIdx.x * 32 + threadIdx.x;
    float2 sum = {0.0f, 0.0f};
    if (j < N) {
#pragma unroll 4  // rows on their way at once
        for (long long i = blockIdx.y * 8 + threadIdx.y; i < M; i += gridDim.y * 8) {
            float2 row = statistics[i];
            float d = (float)dy[i * dy_stride + j];
            sum.x += d * (((float)x[i * x_stride + j] - row.x) * row.y);
            if (BIAS) sum.y += d;
        }
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || j >= N) return;
    for (int y = 1; y < 8; ++y) {
        float2 above = sums[y][threadIdx.x];
        sum.x += above.x;
        if (BIAS) sum.y += above.y;
    }
    if (!partial) {
        if (dweight) dweight[j] = (T)sum.x;
        if (BIAS && dbias) dbias[j] = (T)sum.y;
        return;
    }
    partial += (long long)blockIdx.y * (1 + BIAS) * N;
    partial[j] = sum.x;
    if (BIAS) partial[N + j] = sum.y;
}
