// Double precision, compensated sums, iterations; what the compiler is told about a number.

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 600
#else
__device__ double atomicAdd(double* a, double b) { return b; }
#endif

// As before sm_60: a double added by compare-and-swap.
__device__ double atomicAddByCas(double* address, double val)
{
    unsigned long long int* address_as_ull = (unsigned long long int*)address;
    unsigned long long int old = *address_as_ull, assumed;
    do {
        assumed = old;
        old = atomicCAS(address_as_ull, assumed, __double_as_longlong(val + __longlong_as_double(assumed)));
    } while (assumed != old);
    return __longlong_as_double(old);
}

// The integral of f over [a, b] by the midpoint rule, f a function object.
struct Quarter { __device__ double operator()(double x) const { return 4.0 / (1.0 + x * x); } };

template <class F>
__global__ void integrate(double a, double b, long long steps, double* result)
{
    const F f{};
    const double h = (b - a) / steps;
    double sum = 0.0, lost = 0.0;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < steps; i += (long long)gridDim.x * blockDim.x) {
        const double y = __dadd_rn(f(a + (i + 0.5) * h), -lost), t = __dadd_rn(sum, y);  // Kahan
        lost = __dadd_rn(__dadd_rn(t, -sum), -y);
        sum = t;
    }
    atomicAddByCas(result, sum * h);
}

// Jacobi's iteration for A x = b; the largest change as a maximum over bits.
__global__ void jacobi(const double* A, const double* b, const double* x, double* x_new, unsigned long long* change, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double sigma = 0.0;
    for (int j = 0; j < n; ++j)
        if (j != i) sigma += A[i * n + j] * x[j];
    x_new[i] = (b[i] - sigma) / A[i * n + i];
    atomicMax(change, (unsigned long long)__double_as_longlong(fabs(x_new[i] - x[i])));
}

// Special functions of float, each in its column.
__global__ void special(const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float v = x[i];
    float* o = y + 8 * i;
    o[0] = erff(v); o[1] = log1pf(v); o[2] = expm1f(v); o[3] = atan2f(v, 1.0f + v);
    o[4] = cbrtf(v); o[5] = hypotf(v, 3.0f); o[6] = fmodf(v, 0.3f); o[7] = __powf(v, 1.5f);
}

// Gaussian elimination without pivots, a system a block, in shared memory.
template <int N>
__global__ void solve(const double* matrices, const double* rhs, double* x)
{
    __shared__ double a[N][N + 1];
    const int c = threadIdx.x, r = threadIdx.y;  // (N + 1) x N threads
    a[r][c] = c < N ? matrices[(blockIdx.x * N + r) * N + c] : rhs[blockIdx.x * N + r];
    __syncthreads();
    for (int p = 0; p < N; ++p) {
        const double factor = a[r][p] / a[p][p], top = a[p][c];
        __syncthreads();
        if (r != p) a[r][c] -= factor * top;
        __syncthreads();
    }
    if (c == N) x[blockIdx.x * N + r] = a[r][N] / a[r][r];
}
