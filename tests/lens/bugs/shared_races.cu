// Threads of a block that meet in shared memory without a barrier between.

// launch: (1,), (64,), (floats(64), zeros(64))
extern "C" __global__ void reversed(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = s[63 - threadIdx.x];  // bug: race
}

// launch: (2,), (128,), (floats(256), zeros(2))
extern "C" __global__ void tree_without_a_barrier(const float* x, float* sums) {
    __shared__ float s[128];
    s[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
    __syncthreads();
    for (int half = 64; half > 0; half /= 2)
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];  // bug: race
    __syncthreads();
    if (threadIdx.x == 0) sums[blockIdx.x] = s[0];
}

// launch: (1,), (96,), (floats(960), zeros(96))
extern "C" __global__ void tile_overwritten(const float* x, float* y) {
    __shared__ float tile[96];
    float sum = 0;
    for (int k = 0; k < 10; ++k) {
        tile[threadIdx.x] = x[k * 96 + threadIdx.x];  // bug: race
        __syncthreads();
        sum += tile[(threadIdx.x + 33) % 96];
    }
    y[threadIdx.x] = sum;
}

// launch: (1,), (128,), (floats(128), zeros(128))
extern "C" __global__ void broadcast_without_a_barrier(const float* x, float* y) {
    __shared__ float mean;
    if (threadIdx.x == 0) mean = x[0];
    y[threadIdx.x] = x[threadIdx.x] - mean;  // bug: race
}

// launch: (1,), (16, 16), (floats(256), zeros(256))
extern "C" __global__ void transposed(const float* x, float* y) {
    __shared__ float tile[16][17];
    tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * 16 + threadIdx.x];
    y[threadIdx.y * 16 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];  // bug: race
}

// launch: (1,), (64,), (integers(64, 8), zeros(8, torch.int32))
extern "C" __global__ void histogram_without_atomics(const int* x, int* counts) {
    __shared__ int bins[8];
    if (threadIdx.x < 8) bins[threadIdx.x] = 0;
    __syncthreads();
    bins[x[threadIdx.x]] += 1;  // bug: race
    __syncthreads();
    if (threadIdx.x < 8) counts[threadIdx.x] = bins[threadIdx.x];
}

// launch: (1,), (64,), (floats(64), zeros(64))
extern "C" __global__ void one_writes_all_write(const float* x, float* y) {
    __shared__ float last;
    last = x[threadIdx.x];  // bug: race
    __syncthreads();
    y[threadIdx.x] = last;
}

// launch: (1,), (128,), (floats(128), zeros(128)), 128 * 4
extern "C" __global__ void dynamic_neighbours(const float* x, float* y) {
    extern __shared__ float line[];
    line[threadIdx.x] = x[threadIdx.x];
    const float left = threadIdx.x ? line[threadIdx.x - 1] : 0;  // bug: race
    y[threadIdx.x] = left + line[threadIdx.x];
}

// launch: (1,), (256,), (floats(256).to(torch.uint8), zeros(256, torch.uint8))
extern "C" __global__ void bytes_one_off(const unsigned char* x, unsigned char* y) {
    __shared__ unsigned char s[257];
    s[threadIdx.x] = x[threadIdx.x];
    s[threadIdx.x + 1] = 1;  // bug: race
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x];
}

// launch: (1,), (128,), (floats(1280), zeros(128))
extern "C" __global__ void buffers_swapped_too_early(const float* x, float* y) {
    __shared__ float tile[2][128];
    float sum = 0;
    tile[0][threadIdx.x] = x[threadIdx.x];
    for (int k = 0; k < 10; ++k) {
        if (k < 9) tile[(k + 1) % 2][threadIdx.x] = x[(k + 1) * 128 + threadIdx.x];
        sum += tile[k % 2][127 - threadIdx.x];  // bug: race
    }
    y[threadIdx.x] = sum;
}

// launch: (1,), (64,), (floats(64), zeros(1))
extern "C" __global__ void plain_beside_atomic(const float* x, float* y) {
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, x[threadIdx.x]);
    if (threadIdx.x == 0) y[0] = sum;  // bug: race
}

// launch: (1,), (64,), (integers(64, 8), zeros(8, torch.int32))
extern "C" __global__ void counted_by_exchanges(const int* x, int* counts) {
    __shared__ int bins[8];
    if (threadIdx.x < 8) bins[threadIdx.x] = 0;
    __syncthreads();
    atomicExch(&bins[x[threadIdx.x]], bins[x[threadIdx.x]] + 1);  // bug: race
    __syncthreads();
    if (threadIdx.x < 8) counts[threadIdx.x] = bins[threadIdx.x];
}

// launch: (1,), (64,), (floats(64), zeros(1))
extern "C" __global__ void added_up_to_a_limit(const float* x, float* y) {
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    if (*(volatile float*)&sum < 100) atomicAdd(&sum, x[threadIdx.x]);  // bug: race
    __syncthreads();
    if (threadIdx.x == 0) *y = sum;
}
