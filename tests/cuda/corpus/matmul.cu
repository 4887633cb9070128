// Dense products: from a thread an element to register tiles, batches by stride, and doubles.

__global__ void sgemm_naive(int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
  // the last tiles are not full
  if (x < M && y < N) {
    float tmp = 0.0;
    for (int i = 0; i < K; ++i) {
      tmp += A[x * K + i] * B[i * N + y];
    }
    C[x * N + y] = alpha * tmp + beta * C[x * N + y];
  }
}

#ifndef TILE_WIDTH
#define TILE_WIDTH 16
#endif

__global__ void matrixMulShared(float *C, const float *A, const float *B, int rows, int inner, int cols)
{
    __shared__ float As[TILE_WIDTH][TILE_WIDTH];
    __shared__ float Bs[TILE_WIDTH][TILE_WIDTH];
    int bx = blockIdx.x, by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y;
    int Row = by * TILE_WIDTH + ty, Col = bx * TILE_WIDTH + tx;
    float Pvalue = 0;
    for (int ph = 0; ph < (inner + TILE_WIDTH - 1) / TILE_WIDTH; ++ph) {
        As[ty][tx] = (Row < rows && ph * TILE_WIDTH + tx < inner) ? A[Row * inner + ph * TILE_WIDTH + tx] : 0.0f;
        Bs[ty][tx] = (ph * TILE_WIDTH + ty < inner && Col < cols) ? B[(ph * TILE_WIDTH + ty) * cols + Col] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE_WIDTH; ++k) Pvalue += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (Row < rows && Col < cols) C[Row * cols + Col] = Pvalue;
}

// TM x TN results a thread, held in registers; batches by stride on blockIdx.z.
template <const int BM, const int BN, const int BK, const int TM, const int TN>
__global__ void __launch_bounds__((BM * BN) / (TM * TN))
gemm_batched_strided(const float* __restrict__ A, long long strideA, const float* __restrict__ B, long long strideB,
                     float* __restrict__ C, long long strideC, int M, int N, int K)
{
    constexpr int kThreads = (BM * BN) / (TM * TN);
    static_assert(kThreads % 32 == 0, "whole warps");
    __shared__ float As[BK][BM + 4];  // transposed
    __shared__ float Bs[BK][BN];

    A += blockIdx.z * strideA;
    B += blockIdx.z * strideB;
    C += blockIdx.z * strideC;
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    const int threadCol = threadIdx.x % (BN / TN), threadRow = threadIdx.x / (BN / TN);

    float acc[TM][TN] = {};
    float regM[TM], regN[TN];
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = threadIdx.x; i < BM * BK; i += kThreads) {
            const int r = i / BK, c = i % BK;
            As[c][r] = row0 + r < M && k0 + c < K ? A[(row0 + r) * K + k0 + c] : 0.0f;
        }
        for (int i = threadIdx.x; i < BK * BN; i += kThreads) {
            const int r = i / BN, c = i % BN;
            Bs[r][c] = k0 + r < K && col0 + c < N ? B[(k0 + r) * N + col0 + c] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            #pragma unroll
            for (int i = 0; i < TM; ++i) regM[i] = As[k][threadRow * TM + i];
            #pragma unroll
            for (int j = 0; j < TN; ++j) regN[j] = Bs[k][threadCol * TN + j];
            #pragma unroll
            for (int i = 0; i < TM; ++i)
                #pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] = fmaf(regM[i], regN[j], acc[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) {
            const int r = row0 + threadRow * TM + i, c = col0 + threadCol * TN + j;
            if (r < M && c < N) C[r * N + c] = acc[i][j];
        }
}

// Tiles moved by float4: N and K are multiples of four; the kernel of an interview.
#define FLOAT4(value) (reinterpret_cast<float4*>(&(value))[0])
#define CONST_FLOAT4(value) (reinterpret_cast<const float4*>(&(value))[0])
#define OFFSET(row, col, ld) ((row) * (ld) + (col))

__global__ void sgemm_vec4(const float* a, const float* b, float* c, const int M, const int N, const int K)
{
    const int BM = 64, BN = 64, BK = 8, TM = 4, TN = 4;  // 256 threads
    __shared__ float s_a[BK * BM], s_b[BK * BN];
    const int tid = threadIdx.y * blockDim.x + threadIdx.x;
    const int a_row = tid / 2, a_col = (tid % 2) * 4, b_row = (tid - 128) / 16, b_col = ((tid - 128) % 16) * 4;
    float r_c[TM][TN] = {{0.f}};
    for (int bk = 0; bk < (K + BK - 1) / BK; bk++) {
        if (tid < 128) {  // half of the threads bring A, the others B
            const int gr = blockIdx.y * BM + a_row, gc = bk * BK + a_col;
            float4 v = gr < M && gc < K ? CONST_FLOAT4(a[OFFSET(gr, gc, K)]) : make_float4(0, 0, 0, 0);
            s_a[OFFSET(a_col + 0, a_row, BM)] = v.x;
            s_a[OFFSET(a_col + 1, a_row, BM)] = v.y;
            s_a[OFFSET(a_col + 2, a_row, BM)] = v.z;
            s_a[OFFSET(a_col + 3, a_row, BM)] = v.w;
        } else {
            const int gr = bk * BK + b_row, gc = blockIdx.x * BN + b_col;
            FLOAT4(s_b[OFFSET(b_row, b_col, BN)]) =
                gr < K && gc < N ? CONST_FLOAT4(b[OFFSET(gr, gc, N)]) : make_float4(0.f, 0.f, 0.f, 0.f);
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; k++) {
            const float4 ra = FLOAT4(s_a[OFFSET(k, threadIdx.y * TM, BM)]), rb = FLOAT4(s_b[OFFSET(k, threadIdx.x * TN, BN)]);
            const float va[4] = {ra.x, ra.y, ra.z, ra.w}, vb[4] = {rb.x, rb.y, rb.z, rb.w};
            for (int m = 0; m < TM; m++)
                for (int n = 0; n < TN; n++) r_c[m][n] += va[m] * vb[n];
        }
        __syncthreads();
    }
    for (int m = 0; m < TM; m++) {
        const int gr = blockIdx.y * BM + threadIdx.y * TM + m, gc = blockIdx.x * BN + threadIdx.x * TN;
        if (gr < M && gc < N) FLOAT4(c[OFFSET(gr, gc, N)]) = make_float4(r_c[m][0], r_c[m][1], r_c[m][2], r_c[m][3]);
    }
}

// C += A^T A for doubles, the upper triangle by symmetry.
__global__ void dsyrk(const double* a, double* c, int n, int k)
{
    const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || j >= n || i > j) return;
    double sum = 0;
    for (int p = 0; p < k; ++p) sum = fma(a[p * n + i], a[p * n + j], sum);
    c[i * n + j] += sum;
    if (i != j) c[j * n + i] += sum;
}
