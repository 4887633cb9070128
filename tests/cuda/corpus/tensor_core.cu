// Products on tensor cores through nvcuda::wmma.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

const int WMMA_M = 16;
const int WMMA_N = 16;
const int WMMA_K = 16;

// One warp a tile of 16 x 16, straight from global memory; C in float.
__global__ void wmma_naive(const half *a, const half *b, const float *c, float *d, int M, int N, int K, float alpha, float beta)
{
    int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
    int warpN = (blockIdx.y * blockDim.y + threadIdx.y);

    wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> a_frag;
    wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> b_frag;
    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc_frag;
    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> c_frag;
    wmma::fill_fragment(acc_frag, 0.0f);

    int row = warpM * WMMA_M, col = warpN * WMMA_N;
    if (row >= M || col >= N) return;
    for (int k = 0; k < K; k += WMMA_K) {
        wmma::load_matrix_sync(a_frag, a + row * K + k, K);
        wmma::load_matrix_sync(b_frag, b + col * K + k, K);
        wmma::mma_sync(acc_frag, a_frag, b_frag, acc_frag);
    }
    wmma::load_matrix_sync(c_frag, c + row * N + col, N, wmma::mem_row_major);
    for (int i = 0; i < c_frag.num_elements; i++) c_frag.x[i] = alpha * acc_frag.x[i] + beta * c_frag.x[i];
    wmma::store_matrix_sync(d + row * N + col, c_frag, N, wmma::mem_row_major);
}

// Four warps and a tile of 64 x 32 staged in shared memory, with edges; T is half or bfloat16.
template <typename T>
__global__ void wmma_shared(const T* __restrict__ A, const T* __restrict__ B, float* __restrict__ C, int M, int N, int K)
{
    constexpr int BM = 64, BN = 32, BK = 16, kPad = 8;
    __shared__ __align__(32) T sA[BM][BK + kPad];
    __shared__ __align__(32) T sB[BK][BN + kPad];
    __shared__ __align__(32) float sC[BM][BN];
    const int warp = threadIdx.x / 32, m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
    for (auto& f : acc) wmma::fill_fragment(f, 0.0f);
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = threadIdx.x; i < BM * BK; i += blockDim.x) {
            const int r = m0 + i / BK, c = k0 + i % BK;
            sA[i / BK][i % BK] = r < M && c < K ? A[r * K + c] : T(0.0f);
        }
        for (int i = threadIdx.x; i < BK * BN; i += blockDim.x) {
            const int r = k0 + i / BN, c = n0 + i % BN;
            sB[i / BN][i % BN] = r < K && c < N ? B[r * N + c] : T(0.0f);
        }
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
        wmma::load_matrix_sync(fa, &sA[warp * 16][0], BK + kPad);
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> fb;
            wmma::load_matrix_sync(fb, &sB[0][j * 16], BN + kPad);
            wmma::mma_sync(acc[j], fa, fb, acc[j]);
        }
        __syncthreads();
    }
    for (int j = 0; j < 2; ++j) wmma::store_matrix_sync(&sC[warp * 16][j * 16], acc[j], BN, wmma::mem_row_major);
    __syncthreads();
    for (int i = threadIdx.x; i < BM * BN; i += blockDim.x) {
        const int r = m0 + i / BN, c = n0 + i % BN;
        if (r < M && c < N) C[r * N + c] = sC[i / BN][i % BN];
    }
}

// tf32: floats rounded to ten bits of mantissa, 16 x 16 x 8.
__global__ void wmma_tf32(const float* a, const float* b, float* c, int lda, int ldb, int ldc, int K)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (int k = 0; k < K; k += 8) {
        wmma::load_matrix_sync(fa, a + blockIdx.y * 16 * lda + k, lda);
        wmma::load_matrix_sync(fb, b + k * ldb + blockIdx.x * 16, ldb);
        for (int t = 0; t < fa.num_elements; ++t) fa.x[t] = wmma::__float_to_tf32(fa.x[t]);
        for (int t = 0; t < fb.num_elements; ++t) fb.x[t] = wmma::__float_to_tf32(fb.x[t]);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + blockIdx.y * 16 * ldc + blockIdx.x * 16, fc, ldc, wmma::mem_row_major);
}

// int8 into int32, tiles of 32 x 8.
__global__ void wmma_int8(const signed char* a, const signed char* b, int* c, int N, int K)
{
    wmma::fragment<wmma::matrix_a, 32, 8, 16, signed char, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 32, 8, 16, signed char, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 32, 8, 16, int> fc;
    wmma::fill_fragment(fc, 0);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(fa, a + blockIdx.y * 32 * K + k, K);
        wmma::load_matrix_sync(fb, b + blockIdx.x * 8 * K + k, K);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + blockIdx.y * 32 * N + blockIdx.x * 8, fc, N, wmma::mem_row_major);
}
