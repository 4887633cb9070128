__global__ void row_sums(float* y, float* x, int M, int N)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= M) return;
    float sum = 0;
    for (int j = 0; j < N; j++) sum += x[i * N + j];
    y[i] = sum;
}
