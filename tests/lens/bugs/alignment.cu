// Vectors at addresses that are no multiple of their size.

// launch: (1,), (32,), (floats(130)[1:], zeros(128))
extern "C" __global__ void vectors_of_a_view(const float4* x, float4* y) {
    y[threadIdx.x] = x[threadIdx.x];  // bug: misaligned access
}

// launch: (1,), (32,), (floats(66), zeros(66))
extern "C" __global__ void pairs_one_off(const float* x, float* y) {
    const float2 pair = *reinterpret_cast<const float2*>(x + 2 * threadIdx.x + 1);  // bug: misaligned access
    y[2 * threadIdx.x] = pair.x;
    y[2 * threadIdx.x + 1] = pair.y;
}

// launch: (1,), (32,), (floats(160), zeros(32))
extern "C" __global__ void padded_rows(const float* x, float* y) {
    __shared__ float tile[32][5];
    for (int k = 0; k < 5; ++k) tile[threadIdx.x][k] = x[threadIdx.x * 5 + k];
    __syncwarp();
    const float2 pair = reinterpret_cast<float2&>(tile[threadIdx.x][0]);  // bug: misaligned access
    y[threadIdx.x] = pair.x + pair.y;
}

// launch: (1,), (32,), (zeros(200, torch.uint8), zeros(32))
extern "C" __global__ void header_of_one_byte(const char* x, float* y) {
    y[threadIdx.x] = *reinterpret_cast<const float*>(x + 1 + 4 * threadIdx.x);  // bug: misaligned access
}
