// Indices past arrays of the kernel's source, that no array comes after or before: what lies there is no one's.

// launch: (2,), (32,), (zeros(32),)
extern "C" __global__ void far_past_the_only_array(float* y) {
    __shared__ float a[32];
    a[threadIdx.x * 1000] = 1;  // bug: out of bounds
}

// launch: (2,), (32,), (zeros(32),)
extern "C" __global__ void farther(float* y) {
    __shared__ float a[32], b[32];
    a[threadIdx.x] = b[threadIdx.x] = 1;
    float* p = a;
    if (threadIdx.x == 3) y[0] = p[4000000];  // bug: out of bounds
}

// launch: (1,), (32,), (zeros(32),)
extern "C" __global__ void one_past_by_a_pointer(float* y) {
    __shared__ float a[32];
    float* p = a;
    p[threadIdx.x + 1] = threadIdx.x;  // bug: out of bounds
    __syncwarp();
    y[threadIdx.x] = threadIdx.x ? p[threadIdx.x] : 0;
}

// launch: (1,), (32,), (zeros(32),)
extern "C" __global__ void before_the_beginning(float* y) {
    __shared__ float a[32];
    a[threadIdx.x] = 1;
    __syncthreads();
    const float* p = a;
    y[threadIdx.x] = p[int(threadIdx.x) - 1];  // bug: out of bounds
}

// launch: (1,), (32,), (zeros(32),)
extern "C" __global__ void far_before_the_beginning(float* y) {
    __shared__ float a[32];
    float* p = a;
    p[-30000 * int(threadIdx.x + 1)] = 1;  // bug: out of bounds
}

// launch: (1,), (32,), (zeros(32),)
extern "C" __global__ void atomics_past(float* y) {
    __shared__ int a[32];
    a[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&a[threadIdx.x + 1], 1);  // bug: out of bounds
}

// launch: (1,), (32,), (zeros(32),)
extern "C" __global__ void atomics_far_past(float* y) {
    __shared__ float a[32];
    a[threadIdx.x] = 0;
    float* p = a;
    atomicAdd(p + 100000 * (threadIdx.x + 1), 1.0f);  // bug: out of bounds
}

// launch: (1,), (32,), (zeros(32),), 32 * 4
extern "C" __global__ void into_dynamic_shared(float* y) {
    __shared__ float a[32];
    extern __shared__ float d[];
    d[threadIdx.x] = a[threadIdx.x] = 1;
    __syncthreads();
    float* p = a;
    if (threadIdx.x == 0) p[32] = 2;  // bug: out of bounds
}

// launch: (1,), (32,), (zeros(32),), 32 * 4
extern "C" __global__ void before_dynamic_shared(float* y) {
    extern __shared__ float d[];
    d[int(threadIdx.x) - 1] = 1;  // bug: out of bounds
}

// launch: (1,), (32,), (zeros(32),), 32 * 4
extern "C" __global__ void far_past_dynamic_shared(float* y) {
    extern __shared__ float d[];
    d[threadIdx.x * 100000] = 1;  // bug: out of bounds
}

// launch: (1,), (1,), (floats(64),)
extern "C" __global__ void copied_too_much(float* x) {
    __shared__ float a[32];
    memcpy(a, x, 132);  // bug: out of bounds
    memset(a, 0, 256);  // bug: out of bounds
}

// launch: (1,), (32,), (zeros(32),)
extern "C" __global__ void static_variables(float* y) {
    static __device__ float own[32];
    const int t = threadIdx.x;
    own[t] = t;
    y[t] = own[31 - t];     // bug: race
    float* p = own;
    if (t == 0) p[32] = 1;  // bug: out of bounds
}
