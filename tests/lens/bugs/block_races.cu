// Blocks, and threads without a barrier, that meet in global memory.

// launch: (4,), (64,), (floats(256), zeros(1))
extern "C" __global__ void sum_without_atomics(const float* x, float* sum) {
    *sum += x[blockIdx.x * 64 + threadIdx.x];  // bug: race
}

// launch: (4,), (64,), (floats(260), zeros(260))
extern "C" __global__ void tiles_overlap(const float* x, float* y) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    y[i] = x[i];
    if (threadIdx.x == 0) y[i + 64] = 0.5f;  // bug: race
}

// launch: (4,), (64,), (floats(256),)
extern "C" __global__ void stencil_in_place(float* x) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    const float left = i ? x[i - 1] : 0;
    __syncthreads();
    x[i] = left + 1;  // bug: race
}

// launch: (8,), (64,), (floats(512), zeros(8), zeros(1, torch.int32), zeros(1))
extern "C" __global__ void last_block_without_a_fence(const float* x, float* partial, unsigned* done, float* y) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = x[blockIdx.x * 64];  // no __threadfence() follows
        last = atomicAdd(done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float sum = 0;
        for (int b = 0; b < gridDim.x; ++b) sum += partial[b];  // bug: race
        *y = sum;
    }
}

// launch: (8,), (64,), (floats(512), zeros(8), zeros(1, torch.int32), zeros(1))
extern "C" __global__ void last_block_fences_for_its_block(const float* x, float* partial, unsigned* done, float* y) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = x[blockIdx.x * 64];
        __threadfence_block();
        last = atomicAdd(done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float sum = 0;
        for (int b = 0; b < gridDim.x; ++b) sum += partial[b];  // bug: race
        *y = sum;
    }
}

// launch: (8,), (64,), (floats(512), zeros(512), zeros(1, torch.int32), zeros(1))
extern "C" __global__ void last_block_counts_too_early(const float* x, float* partial, unsigned* done, float* y) {
    __shared__ bool last;
    const int i = blockIdx.x * 64 + threadIdx.x;
    partial[i] = x[i];
    __threadfence();
    // The other threads of the block may not have written yet.
    if (threadIdx.x == 0) last = atomicAdd(done, 1u) == gridDim.x - 1;
    __syncthreads();
    if (last && threadIdx.x == 0) {
        float sum = 0;
        for (int k = 0; k < gridDim.x * 64; ++k) sum += partial[k];  // bug: race
        *y = sum;
    }
}

// launch: (1,), (64,), (floats(64), zeros(64), zeros(64))
extern "C" __global__ void through_global_memory(const float* x, float* scratch, float* y) {
    scratch[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = scratch[63 - threadIdx.x];  // bug: race
}

// launch: (2,), (32,), (floats(64), zeros(1), zeros(1, torch.int32))
extern "C" __global__ void lock_without_a_fence(const float* x, float* sum, int* lock) {
    if (threadIdx.x != 0) return;
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    *sum += x[blockIdx.x];  // bug: race
    atomicExch(lock, 0);
}

// launch: (4,), (32,), (floats(128), zeros(1), zeros(4, torch.int32))
extern "C" __global__ void passes_on_without_a_fence(const float* x, float* total, volatile int* ready) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x) while (!ready[blockIdx.x - 1]) __nanosleep(10);
    *total += x[blockIdx.x * 32];  // bug: race
    ready[blockIdx.x] = 1;
}

// launch: (4,), (64,), (integers(256, 100), zeros(1, torch.int32))
extern "C" __global__ void largest_by_plain_writes(const int* x, int* largest) {
    const int value = x[blockIdx.x * 64 + threadIdx.x];
    if (value > *largest) *largest = value;  // bug: race
}

// launch: (4,), (64,), (integers(256, 100), zeros(1, torch.int32))
extern "C" __global__ void largest_by_an_exchange(const int* x, int* largest) {
    const int value = x[blockIdx.x * 64 + threadIdx.x];
    if (value > *largest) atomicExch(largest, value);  // bug: race
}

// launch: (4,), (64,), (floats(256), zeros(1))
extern "C" __global__ void largest_float_by_an_exchange(const float* x, float* largest) {
    const float value = x[blockIdx.x * 64 + threadIdx.x];
    if (value > *largest) atomicExch(largest, value);  // bug: race
}
