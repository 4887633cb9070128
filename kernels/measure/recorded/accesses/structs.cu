// Particles of four floats: as an array of structs, and as an array for each member.

struct Particle {
    float x, y, z, mass;
};

__global__ void struct_member(const Particle* particles, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = particles[i].mass;
}

__global__ void array_member(const float* x, const float* y, const float* z, const float* mass, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = mass[i];
}

__global__ void struct_members(const Particle* particles, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = particles[i].mass * (particles[i].x + particles[i].y + particles[i].z);
}

__global__ void array_members(const float* x, const float* y, const float* z, const float* mass, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = mass[i] * (x[i] + y[i] + z[i]);
}

// The whole struct at once: its 16 bytes are one load.
__global__ void struct_vector(const float4* particles, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float4 p = particles[i];
        out[i] = p.w * (p.x + p.y + p.z);
    }
}
