// Fractals, bodies, prices, waves.

struct cuComplex_ {
    double r, i;
    __device__ cuComplex_(double a, double b) : r(a), i(b) {}
    __device__ double magnitude2(void) { return r * r + i * i; }
    __device__ cuComplex_ operator*(const cuComplex_& a) { return cuComplex_(r * a.r - i * a.i, i * a.r + r * a.i); }
    __device__ cuComplex_ operator+(const cuComplex_& a) { return cuComplex_(r + a.r, i + a.i); }
};

__device__ int julia(int x, int y, int dim)
{
    const double scale = 1.5;
    double jx = scale * (double)(dim / 2 - x) / (dim / 2);
    double jy = scale * (double)(dim / 2 - y) / (dim / 2);
    cuComplex_ c(-0.8, 0.156);
    cuComplex_ a(jx, jy);
    int i = 0;
    for (i = 0; i < 30; i++) {
        a = a * a + c;
        if (a.magnitude2() > 1000) return 0;
    }
    return 1;
}

__global__ void julia_kernel(unsigned char *ptr, int dim)
{
    int x = blockIdx.x;
    int y = blockIdx.y * blockDim.x + threadIdx.x;
    if (y < dim) ptr[x + y * dim] = 255 * julia(x, y, dim);
}

// Iterations to escape, in double.
__global__ void mandelbrot(int* iterations, int w, int h, double2 low, double2 high, int limit)
{
    const int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= w || py >= h) return;
    const double cx = low.x + (high.x - low.x) * px / w, cy = low.y + (high.y - low.y) * py / h;
    double x = 0, y = 0;
    int n = 0;
    while (n < limit && x * x + y * y <= 4.0) {
        const double t = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = t;
        ++n;
    }
    iterations[py * w + px] = n;
}

// Gravity of all on all; a body is x, y, z and mass; a tile of bodies in shared memory.
__device__ float3 bodyBodyInteraction(float4 bi, float4 bj, float3 ai, float softening)
{
    float3 r;
    r.x = bj.x - bi.x;
    r.y = bj.y - bi.y;
    r.z = bj.z - bi.z;
    float distSqr = r.x * r.x + r.y * r.y + r.z * r.z + softening;
    float invDist = rsqrtf(distSqr);
    float s = bj.w * invDist * invDist * invDist;
    ai.x += r.x * s;
    ai.y += r.y * s;
    ai.z += r.z * s;
    return ai;
}

__global__ void calculate_forces(const float4 *globalX, float4 *globalA, int N, float softening)
{
    extern __shared__ float4 shPosition[];
    const int gtid = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 myPosition = gtid < N ? globalX[gtid] : make_float4(0, 0, 0, 0);
    float3 acc = {0.0f, 0.0f, 0.0f};
    for (int tile = 0; tile * blockDim.x < N; tile++) {
        int idx = tile * blockDim.x + threadIdx.x;
        shPosition[threadIdx.x] = idx < N ? globalX[idx] : make_float4(0.f, 0.f, 0.f, 0.f);  // no mass, no force
        __syncthreads();
#pragma unroll 4
        for (unsigned j = 0; j < blockDim.x; j++) acc = bodyBodyInteraction(myPosition, shPosition[j], acc, softening);
        __syncthreads();
    }
    if (gtid < N) globalA[gtid] = make_float4(acc.x, acc.y, acc.z, 0.0f);
}

// Black and Scholes, with a polynomial for the normal distribution.
__device__ __forceinline__ float cnd(float d)
{
    const float A1 = 0.31938153f, A2 = -0.356563782f, A3 = 1.781477937f, A4 = -1.821255978f, A5 = 1.330274429f;
    const float RSQRT2PI = 0.39894228040143267793994605993438f;
    float K = __fdividef(1.0f, (1.0f + 0.2316419f * fabsf(d)));
    float value = RSQRT2PI * __expf(-0.5f * d * d) * (K * (A1 + K * (A2 + K * (A3 + K * (A4 + K * A5)))));
    if (d > 0) value = 1.0f - value;
    return value;
}

__launch_bounds__(128) __global__ void BlackScholesGPU(float2 *__restrict d_Call, float2 *__restrict d_Put,
                                                       const float2 *__restrict d_StockPrice,
                                                       const float2 *__restrict d_OptionStrike,
                                                       const float2 *__restrict d_OptionYears,
                                                       float Riskfree, float Volatility, int optN)
{
    const int opt = blockDim.x * blockIdx.x + threadIdx.x;
    if (opt >= optN / 2) return;
    float call[2], put[2];
    const float S[2] = {d_StockPrice[opt].x, d_StockPrice[opt].y}, X[2] = {d_OptionStrike[opt].x, d_OptionStrike[opt].y};
    const float T[2] = {d_OptionYears[opt].x, d_OptionYears[opt].y};
    for (int k = 0; k < 2; ++k) {
        float sqrtT = __fdividef(1.0F, rsqrtf(T[k]));
        float d1 = __fdividef(__logf(S[k] / X[k]) + (Riskfree + 0.5f * Volatility * Volatility) * T[k], Volatility * sqrtT);
        float CNDD1 = cnd(d1), CNDD2 = cnd(d1 - Volatility * sqrtT);
        float expRT = __expf(-Riskfree * T[k]);
        call[k] = S[k] * CNDD1 - X[k] * expRT * CNDD2;
        put[k] = X[k] * expRT * (1.0f - CNDD2) - S[k] * (1.0f - CNDD1);
    }
    d_Call[opt] = make_float2(call[0], call[1]);
    d_Put[opt] = make_float2(put[0], put[1]);
}

// A Fourier transform of N points a block: bits reversed, then butterflies in shared memory.
template <int LOG_N>
__global__ void fft_block(const float2* in, float2* out)
{
    constexpr int N = 1 << LOG_N;
    __shared__ float2 s[N];
    const int t = threadIdx.x;  // N / 2 threads
    in += blockIdx.x * N;
    out += blockIdx.x * N;
    for (int i = t; i < N; i += N / 2) s[__brev(i) >> (32 - LOG_N)] = in[i];
    __syncthreads();
    for (int half = 1; half < N; half *= 2) {
        const int j = t % half, i0 = t / half * 2 * half + j, i1 = i0 + half;
        float sn, cs;
        sincosf(-3.14159265358979f * j / half, &sn, &cs);
        const float2 a = s[i0], b = make_float2(s[i1].x * cs - s[i1].y * sn, s[i1].x * sn + s[i1].y * cs);
        s[i0] = make_float2(a.x + b.x, a.y + b.y);
        s[i1] = make_float2(a.x - b.x, a.y - b.y);
        __syncthreads();
    }
    for (int i = t; i < N; i += N / 2) out[i] = s[i];
}
