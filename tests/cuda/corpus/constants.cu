// Tables that the host fills in before the launch.

#define INF 2e10f
#define SPHERES 7

struct Sphere {
    float r, b, g;
    float radius;
    float x, y, z;
    __device__ float hit(float ox, float oy, float *n) const
    {
        float dx = ox - x;
        float dy = oy - y;
        if (dx * dx + dy * dy < radius * radius) {
            float dz = sqrtf(radius * radius - dx * dx - dy * dy);
            *n = dz / sqrtf(radius * radius);
            return dz + z;
        }
        return -INF;
    }
};

__constant__ Sphere s[SPHERES];

// Parallel rays along z: the nearest sphere, shaded by its normal.
__global__ void ray_trace(float3 *image, int width, int height)
{
    int x = threadIdx.x + blockIdx.x * blockDim.x;
    int y = threadIdx.y + blockIdx.y * blockDim.y;
    if (x >= width || y >= height) return;
    float ox = (x - width / 2);
    float oy = (y - height / 2);
    float r = 0, g = 0, b = 0;
    float maxz = -INF;
    for (int i = 0; i < SPHERES; i++) {
        float n;
        float t = s[i].hit(ox, oy, &n);
        if (t > maxz) {
            r = s[i].r * n;
            g = s[i].g * n;
            b = s[i].b * n;
            maxz = t;
        }
    }
    image[x + y * width] = make_float3(r, g, b);
}

__constant__ double coefficients[6];
__device__ int order;

// Horner's scheme.
__global__ void polynomial(const double* x, double* y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        double value = coefficients[order];
        for (int p = order - 1; p >= 0; --p) value = fma(value, x[i], coefficients[p]);
        y[i] = value;
    }
}

// A table in global memory that one kernel writes and the next reads.
__device__ unsigned crc_table[256];

__global__ void make_crc_table(unsigned polynomial, const unsigned char* /* whose device's table is made */)
{
    unsigned c = threadIdx.x;
    for (int k = 0; k < 8; ++k) c = c & 1 ? polynomial ^ (c >> 1) : c >> 1;
    crc_table[threadIdx.x] = c;
}

__global__ void crc32_rows(const unsigned char* data, unsigned* crc, int rows, int length)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    unsigned c = 0xFFFFFFFFu;
    for (int i = 0; i < length; ++i) c = crc_table[(c ^ data[row * length + i]) & 0xFF] ^ (c >> 8);
    crc[row] = ~c;
}
