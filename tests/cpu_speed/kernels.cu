// The kernels that `python -m kernels bench cuda-cpu` times, as the field writes them.

__global__ void vector_add(const float* x, const float* y, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + y[i];
}

// Blocks of 32 × 8 threads, a tile of 32 × 32.
__global__ void transpose(const float* x, float* out, int n) {
    __shared__ float tile[32][33];
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = x[(row + j) * n + column];
    __syncthreads();
    column = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) out[(row + j) * n + column] = tile[threadIdx.x][threadIdx.y + j];
}

struct Sum {
    __device__ static float of(float a, float b) { return a + b; }
    static constexpr float nothing = 0.0f;
};
struct Max {
    __device__ static float of(float a, float b) { return fmaxf(a, b); }
    static constexpr float nothing = -3.4e38f;
};

// Every thread gets the result. The block has whole warps.
template <class How>
__device__ float over_block(float value) {
    __shared__ float parts[32];
    for (int lanes = 16; lanes; lanes /= 2) value = How::of(value, __shfl_xor_sync(0xffffffffu, value, lanes));
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : How::nothing;
    for (int lanes = 16; lanes; lanes /= 2) value = How::of(value, __shfl_xor_sync(0xffffffffu, value, lanes));
    __syncthreads();
    return value;
}

// A block a row.
__global__ void layer_norm(const float* x, const float* weight, const float* bias, float* out, int n, float eps) {
    const float* row = x + (long long)blockIdx.x * n;
    float total = 0.0f, squares = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) total += row[i];
    float mean = over_block<Sum>(total) / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) squares += (row[i] - mean) * (row[i] - mean);
    float rstd = rsqrtf(over_block<Sum>(squares) / n + eps);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[(long long)blockIdx.x * n + i] = (row[i] - mean) * rstd * weight[i] + bias[i];
}

// A block a row.
__global__ void softmax(const float* x, float* out, int n) {
    const float* row = x + (long long)blockIdx.x * n;
    float largest = Max::nothing, total = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) largest = fmaxf(largest, row[i]);
    largest = over_block<Max>(largest);
    for (int i = threadIdx.x; i < n; i += blockDim.x) total += expf(row[i] - largest);
    total = over_block<Sum>(total);
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[(long long)blockIdx.x * n + i] = expf(row[i] - largest) / total;
}

// Blocks of 16 × 16 threads, an element each. n is a multiple of 16.
__global__ void matmul_tiled(const float* a, const float* b, float* c, int n) {
    __shared__ float as[16][16], bs[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int start = 0; start < n; start += 16) {
        as[threadIdx.y][threadIdx.x] = a[row * n + start + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(start + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

// Blocks of 16 × 16 threads, 4 × 4 elements each, in registers. n is a multiple of 64.
__global__ void matmul_registers(const float* a, const float* b, float* c, int n) {
    __shared__ float as[16][64], bs[16][64];
    int tid = threadIdx.y * 16 + threadIdx.x, top = blockIdx.y * 64, left = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int start = 0; start < n; start += 16) {
        for (int i = tid; i < 1024; i += 256) {
            as[i % 16][i / 16] = a[(top + i / 16) * n + start + i % 16];
            bs[i / 64][i % 64] = b[(start + i / 64) * n + left + i % 64];
        }
        __syncthreads();
        for (int k = 0; k < 16; ++k) {
            float p[4], q[4];
            for (int i = 0; i < 4; ++i) p[i] = as[k][threadIdx.y * 4 + i], q[i] = bs[k][threadIdx.x * 4 + i];
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) sum[i][j] += p[i] * q[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) c[(top + threadIdx.y * 4 + i) * n + left + threadIdx.x * 4 + j] = sum[i][j];
}

// B·H × S × 64. A block of 64 threads takes 64 queries of a head, one a thread; keys and values come in tiles of 32.
__global__ void attention(const float* q, const float* k, const float* v, float* out, int s, float scale) {
    constexpr int D = 64, TILE = 32;
    __shared__ float ks[TILE][D], vs[TILE][D];
    long long head = (long long)blockIdx.y * s * D, query = head + (blockIdx.x * 64 + threadIdx.x) * D;
    float mine[D], sum[D] = {}, largest = -3.4e38f, total = 0.0f;
    for (int d = 0; d < D; ++d) mine[d] = q[query + d] * scale;
    for (int start = 0; start < s; start += TILE) {
        for (int i = threadIdx.x; i < TILE * D; i += 64) {
            ks[i / D][i % D] = k[head + start * D + i];
            vs[i / D][i % D] = v[head + start * D + i];
        }
        __syncthreads();
        float score[TILE], before = largest;
        for (int j = 0; j < TILE; ++j) {
            score[j] = 0.0f;
            for (int d = 0; d < D; ++d) score[j] += mine[d] * ks[j][d];
            largest = fmaxf(largest, score[j]);
        }
        float shrink = expf(before - largest);
        total *= shrink;
        for (int d = 0; d < D; ++d) sum[d] *= shrink;
        for (int j = 0; j < TILE; ++j) {
            float weight = expf(score[j] - largest);
            total += weight;
            for (int d = 0; d < D; ++d) sum[d] += weight * vs[j][d];
        }
        __syncthreads();
    }
    for (int d = 0; d < D; ++d) out[query + d] = sum[d] / total;
}
