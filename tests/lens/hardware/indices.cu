// Where to read and write is itself read.

// y[i] = x[index[i]].
__global__ void gather(const float* x, const int* index, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int from = index[i];
        y[i] = x[from];
    }
}

// y[index[i]] = x[i].
__global__ void scatter(const float* x, const int* index, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int to = index[i];
        y[to] = x[i];
    }
}

// y[index[i]] += x[i] for indices that may repeat.
__global__ void scatter_add(const float* x, const long long* index, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        long long to = index[i];
        float value = x[i];
        atomicAdd(&y[to], value);
    }
}

// Rows of a table, one block a token, four floats a thread.
__global__ void embedding(const float4* table, const long long* tokens, float4* out, int width)
{
    long long token = tokens[blockIdx.x];
#pragma unroll 1
    for (int j = threadIdx.x; j < width; j += blockDim.x) {
        out[blockIdx.x * width + j] = table[token * width + j];
    }
}

// Each lane follows its own chain.
__global__ void chase(const int* next, int* last, int steps, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int at = i;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        at = next[at];
    }
    last[i] = at;
}
