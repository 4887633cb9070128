// Each element from its neighbours.

#define RADIUS 3

__constant__ float c_coeff[RADIUS + 1] = {0.5f, 0.15f, 0.07f, 0.03f};

__global__ void stencil_1d(const float *in, float *out, int n)
{
    __shared__ float temp[128 + 2 * RADIUS];
    int g = threadIdx.x + blockIdx.x * blockDim.x;
    int l = threadIdx.x + RADIUS;
    temp[l] = g < n ? in[g] : 0.0f;
    if (threadIdx.x < RADIUS) {
        temp[l - RADIUS] = g >= RADIUS ? in[g - RADIUS] : 0.0f;
        temp[l + blockDim.x] = g + blockDim.x < n ? in[g + blockDim.x] : 0.0f;
    }
    __syncthreads();
    if (g >= n) return;
    float result = c_coeff[0] * temp[l];
#pragma unroll
    for (int d = 1; d <= RADIUS; d++) result += c_coeff[d] * (temp[l - d] + temp[l + d]);
    out[g] = result;
}

// One explicit step of the heat equation, fixed borders.
__global__ void heat_step(const double* T0, double* T1, int nx, int ny, double alpha)
{
#define IDX(i, j) ((j) * nx + (i))
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= nx || j >= ny) return;
    const double c = T0[IDX(i, j)];
    T1[IDX(i, j)] = (i == 0 || j == 0 || i == nx - 1 || j == ny - 1)
        ? c
        : c + alpha * (T0[IDX(i - 1, j)] + T0[IDX(i + 1, j)] + T0[IDX(i, j - 1)] + T0[IDX(i, j + 1)] - 4.0 * c);
#undef IDX
}

// Seven points in three dimensions, marching along z with the column in registers and the plane in shared memory.
template <int BX, int BY>
__global__ void laplacian_3d(const float* __restrict__ u, float* __restrict__ lap, int3 dims, float h2)
{
    __shared__ float plane[BY + 2][BX + 2];
    const int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y;
    const int tx = threadIdx.x + 1, ty = threadIdx.y + 1, slice = dims.x * dims.y;
    auto at = [&](int xx, int yy, int zz) -> float {
        const bool inside = xx >= 0 && yy >= 0 && zz >= 0 && xx < dims.x && yy < dims.y && zz < dims.z;
        return inside ? u[zz * slice + yy * dims.x + xx] : 0.0f;
    };
    float below = 0.0f, here = at(x, y, 0), above;
    for (int z = 0; z < dims.z; ++z) {
        above = at(x, y, z + 1);
        plane[ty][tx] = here;
        if (threadIdx.x == 0) plane[ty][0] = at(x - 1, y, z);
        if (threadIdx.x == BX - 1) plane[ty][BX + 1] = at(x + 1, y, z);
        if (threadIdx.y == 0) plane[0][tx] = at(x, y - 1, z);
        if (threadIdx.y == BY - 1) plane[BY + 1][tx] = at(x, y + 1, z);
        __syncthreads();
        if (x < dims.x && y < dims.y) {
            float sum = below + above + plane[ty][tx - 1] + plane[ty][tx + 1] + plane[ty - 1][tx] + plane[ty + 1][tx];
            lap[z * slice + y * dims.x + x] = (sum - 6.0f * here) / h2;
        }
        __syncthreads();
        below = here;
        here = above;
    }
}

// A generation of Conway's life on a torus of bytes.
__global__ void life(const unsigned char* world, unsigned char* next, unsigned width, unsigned height)
{
    const unsigned cells = width * height;
    for (unsigned id = blockIdx.x * blockDim.x + threadIdx.x; id < cells; id += blockDim.x * gridDim.x) {
        const unsigned x = id % width, y = id - x;
        const unsigned left = (x + width - 1) % width, right = (x + 1) % width;
        const unsigned up = (y + cells - width) % cells, down = (y + width) % cells;
        const unsigned alive = world[left + up] + world[x + up] + world[right + up] + world[left + y] + world[right + y]
                             + world[left + down] + world[x + down] + world[right + down];
        next[x + y] = alive == 3 || (alive == 2 && world[x + y]) ? 1 : 0;
    }
}
