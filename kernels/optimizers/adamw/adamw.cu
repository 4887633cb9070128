// Level 5: a step of AdamW in CUDA C. P is float, __half or __nv_bfloat16; m, v and the arithmetic are float.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

struct Step {
    float keep, beta1, beta2, size, root, eps;
};

template <typename P>
__device__ void update(P& p, P gradient, float& m, float& v, Step step)
{
    // All is loaded before anything is stored: p, m and v may overlap, for all the compiler knows, and would be loaded again.
    const float g = (float)gradient, before = (float)p;
    const float mean = step.beta1 * m + (1.0f - step.beta1) * g, square = step.beta2 * v + (1.0f - step.beta2) * g * g;
    m = mean;
    v = square;
    p = (P)(step.keep * before - step.size * mean / (sqrtf(square) / step.root + step.eps));
}

// One parameter of n elements.
template <typename P>
__global__ void adamw_each(P* p, const P* g, float* m, float* v, long long n, float keep, float beta1, float beta2,
                           float size, float root, float eps)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) update(p[i], g[i], m[i], v[i], {keep, beta1, beta2, size, root, eps});
}

// Many parameters: block b has the piece number `piece[b]`, of PIECE elements, of parameter number `parameter[b]`. addresses has
// five numbers for each parameter: where p, g, m and v are, and how many elements they have.
template <typename P, int PIECE>
__global__ void adamw_all(const long long* addresses, const int* parameter, const int* piece, float keep, float beta1,
                          float beta2, float size, float root, float eps)
{
    const long long* of = addresses + 5ll * parameter[blockIdx.x];
    P* p = (P*)of[0];
    const P* g = (const P*)of[1];
    float *m = (float*)of[2], *v = (float*)of[3];
    const long long from = (long long)piece[blockIdx.x] * PIECE, end = min(from + PIECE, of[4]);
    for (long long i = from + threadIdx.x; i < end; i += blockDim.x)
        update(p[i], g[i], m[i], v[i], {keep, beta1, beta2, size, root, eps});
}
