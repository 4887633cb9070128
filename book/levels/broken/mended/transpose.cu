// y = x transposed, by tiles of 16×16 in shared memory. x is M×N.
extern "C" __global__ void transpose(
    const float* x, float* y, int M, int N)
{
    __shared__ float tile[16][17];
    int i = blockIdx.y * 16 + threadIdx.y;
    int j = blockIdx.x * 16 + threadIdx.x;
    if (i < M && j < N)
        tile[threadIdx.y][threadIdx.x] = x[i * N + j];
    __syncthreads();
    i = blockIdx.y * 16 + threadIdx.x;
    j = blockIdx.x * 16 + threadIdx.y;
    if (i < M && j < N)
        y[j * M + i] = tile[threadIdx.x][threadIdx.y];
}
