// What people leave in while they look for a mistake.

#ifdef DEBUG
#define LOG(...) do { if (threadIdx.x == 0 && blockIdx.x == 0) printf(__VA_ARGS__); } while (0)
#else
#define LOG(...)
#endif

// A root that is checked, and a count of cycles that must not be negative.
__global__ void checked_sqrt(const double* x, double* y, long long* cycles, int n)
{
    const long long begin = clock64();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        assert(x[i] >= 0.0);
        if (isnan(x[i])) {
            printf("x[%d] is %f in block %d\n", i, x[i], blockIdx.x);
            __trap();
        }
        y[i] = sqrt(x[i]);
        LOG("y[%d] = %.3f\n", i, y[i]);
    }
    if (threadIdx.x == 0) cycles[blockIdx.x] = clock64() - begin >= 0;
}
