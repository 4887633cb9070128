// Sums over an n x n matrix that lies in memory row by row, with n threads for either.

__global__ void row_a_thread(const float* matrix, float* sums, int n)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    float sum = 0.0f;
#pragma unroll 1
    for (int column = 0; column < n; ++column) {
        sum += matrix[(long long)row * n + column];
    }
    sums[row] = sum;
}

__global__ void column_a_thread(const float* matrix, float* sums, int n)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= n) return;
    float sum = 0.0f;
#pragma unroll 1
    for (int row = 0; row < n; ++row) {
        sum += matrix[(long long)row * n + column];
    }
    sums[column] = sum;
}
