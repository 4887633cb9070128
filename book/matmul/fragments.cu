// What the chapter on tensor cores tries by itself.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

// y = x @ w with 16 rows and 16 columns of sums, by one warp. x is 16×K and w K×16, both by rows. SUM: float or half.
extern "C" __global__ void one_tile(const half* x, const half* w, SUM* y, int K)
{
    fragment<matrix_a, 16, 16, 16, half, row_major> x_fragment;
    fragment<matrix_b, 16, 16, 16, half, row_major> w_fragment;
    fragment<accumulator, 16, 16, 16, SUM> sums;
    fill_fragment(sums, SUM(0.0f));
    for (int k = 0; k < K; k += 16) {
        load_matrix_sync(x_fragment, x + k, K);
        load_matrix_sync(w_fragment, w + k * 16, 16);
        mma_sync(sums, x_fragment, w_fragment, sums);
    }
    store_matrix_sync(y, sums, 16, mem_row_major);
}

// A quarter of a fragment: of 8 rows, 16 bytes each, a word for each lane. The rows of the tile are LINE elements long.
extern "C" __global__ void quarter(unsigned* y)
{
    __shared__ unsigned tile[8][LINE / 2];
    for (int at = threadIdx.x; at < 8 * LINE / 2; at += 32) tile[at / (LINE / 2)][at % (LINE / 2)] = at;
    __syncwarp();
    y[threadIdx.x] = tile[threadIdx.x / 4][threadIdx.x % 4];
}
