// Two ways to compute, chosen by lane or by warp; and loops that are long for one lane of a warp, or for one warp of 32.

const int STEPS = 64;

__device__ float grown(float value)
{
#pragma unroll 1
    for (int step = 0; step < STEPS; ++step) value = value * 1.001f + 0.5f;
    return value;
}

__device__ float shrunk(float value)
{
#pragma unroll 1
    for (int step = 0; step < STEPS; ++step) value = value * 0.999f - 0.5f;
    return value;
}

// Every second thread takes the other way: both ways in every warp.
__global__ void diverge_lanes(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (i % 2 == 0)
        y[i] = grown(x[i]);
    else
        y[i] = shrunk(x[i]);
}

// Every second warp takes the other way.
__global__ void diverge_warps(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (i / 32 % 2 == 0)
        y[i] = grown(x[i]);
    else
        y[i] = shrunk(x[i]);
}

// As many ways as asked for, one after the other, each for every ways-th lane.
__global__ void diverge_ways(const float* x, float* y, int ways, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = x[i];
#pragma unroll 1
    for (int way = 0; way < ways; ++way) {
        if (i % ways == way) value = grown(value) + way;
    }
    y[i] = value;
}

// steps[i] rounds for thread i.
__global__ void rounds(const int* steps, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int mine = steps[i];
    float value = 0.0f;
#pragma unroll 1
    for (int step = 0; step < mine; ++step) value = value * 0.5f + 1.0f;
    y[i] = value;
}
