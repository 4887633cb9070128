// Records: an array of structs against a struct of arrays.

struct Point {
    float x, y, z;
};

struct Sphere {
    float x, y, z, radius;
};

struct __align__(16) Aligned {
    float x, y, z, radius;
};

struct Pixel {
    unsigned char r, g, b, a;
};

// 12-byte structs: lanes are 12 bytes apart in each of three reads.
__global__ void points_aos(const Point* points, float* length, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = points[i].x;
        float y = points[i].y;
        float z = points[i].z;
        length[i] = sqrtf(x * x + y * y + z * z);
    }
}

// The same points as three arrays.
__global__ void points_soa(const float* xs, const float* ys, const float* zs, float* length, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = xs[i];
        float y = ys[i];
        float z = zs[i];
        length[i] = sqrtf(x * x + y * y + z * z);
    }
}

// One field of a 16-byte struct: a quarter of each sector is used.
__global__ void radius_aos(const Sphere* spheres, float* radius, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float value = spheres[i].radius;
        radius[i] = value;
    }
}

// All fields of a 16-byte struct that is aligned to 4 bytes: four reads.
__global__ void volume_aos(const Sphere* spheres, float* volume, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = spheres[i].x;
        float y = spheres[i].y;
        float z = spheres[i].z;
        float radius = spheres[i].radius;
        volume[i] = radius * (x + y + z);
    }
}

// The same fields of a struct that is aligned to 16 bytes: the compiler may read it at once.
__global__ void volume_aligned(const Aligned* spheres, float* volume, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float x = spheres[i].x;
        float y = spheres[i].y;
        float z = spheres[i].z;
        float radius = spheres[i].radius;
        volume[i] = radius * (x + y + z);
    }
}

// Moves points in place: three reads and three writes, 12 bytes apart.
__global__ void advance_aos(Point* points, float dx, float dy, float dz, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        points[i].x += dx;
        points[i].y += dy;
        points[i].z += dz;
    }
}

// Bytes of a 4-byte struct, one at a time.
__global__ void grey(const Pixel* pixels, unsigned char* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int r = pixels[i].r;
        int g = pixels[i].g;
        int b = pixels[i].b;
        out[i] = (unsigned char)((r + 2 * g + b) / 4);
    }
}
