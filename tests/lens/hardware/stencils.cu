// Stencils: neighbours read from global memory, or from a tile with a halo.

__constant__ float weights[7] = {0.05f, 0.1f, 0.2f, 0.3f, 0.2f, 0.1f, 0.05f};

// Seven neighbours from global memory.
__global__ void line_global(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 3 || i >= n - 3) return;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 7; ++k) {
        sum += weights[k] * x[i + k - 3];
    }
    y[i] = sum;
}

// Seven neighbours from shared memory; a few threads also read the halo.
__global__ void line_shared(const float* x, float* y, int n)
{
    __shared__ float tile[256 + 6];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    float centre = 0.0f;
    if (i < n) {
        centre = x[i];
    }
    tile[t + 3] = centre;
    if (t < 3) {
        float left = 0.0f, right = 0.0f;
        if (i >= 3) {
            left = x[i - 3];
        }
        if (i + blockDim.x < n) {
            right = x[i + blockDim.x];
        }
        tile[t] = left;
        tile[t + blockDim.x + 3] = right;
    }
    __syncthreads();
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < 7; ++k) {
        sum += weights[k] * tile[t + k];
    }
    if (i < n) {
        y[i] = sum;
    }
}

// Five points of a plane from global memory.
__global__ void plane_global(const float* in, float* out, int rows, int columns)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= columns - 1 || y >= rows - 1) return;
    float up = in[(y - 1) * columns + x];
    float left = in[y * columns + x - 1];
    float centre = in[y * columns + x];
    float right = in[y * columns + x + 1];
    float down = in[(y + 1) * columns + x];
    out[y * columns + x] = 0.2f * (up + left + centre + right + down);
}

// Five points of a plane from a tile of 18 x 18, blocks of 16 x 16.
__global__ void plane_shared(const float* in, float* out, int rows, int columns)
{
    __shared__ float tile[18][18];
    int left = blockIdx.x * 16 - 1, top = blockIdx.y * 16 - 1;
#pragma unroll 1
    for (int k = threadIdx.y * 16 + threadIdx.x; k < 18 * 18; k += 256) {
        int x = left + k % 18, y = top + k / 18;
        float value = 0.0f;
        if (x >= 0 && y >= 0 && x < columns && y < rows) {
            value = in[y * columns + x];
        }
        tile[k / 18][k % 18] = value;
    }
    __syncthreads();
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    float sum = tile[ty][tx];
    sum += tile[ty - 1][tx];
    sum += tile[ty + 1][tx];
    sum += tile[ty][tx - 1];
    sum += tile[ty][tx + 1];
    int x = left + tx, y = top + ty;
    if (x < columns && y < rows) {
        out[y * columns + x] = 0.2f * sum;
    }
}

// An image of bytes, three channels side by side, a box of 3 x 3.
__global__ void blur_bytes(const unsigned char* in, unsigned char* out, int rows, int columns)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= columns - 1 || y >= rows - 1) return;
#pragma unroll 1
    for (int channel = 0; channel < 3; ++channel) {
        int sum = 0;
#pragma unroll 1
        for (int dy = -1; dy <= 1; ++dy) {
#pragma unroll 1
            for (int dx = -1; dx <= 1; ++dx) {
                sum += in[((y + dy) * columns + x + dx) * 3 + channel];
            }
        }
        out[(y * columns + x) * 3 + channel] = (unsigned char)(sum / 9);
    }
}
