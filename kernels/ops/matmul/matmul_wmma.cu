// Level 5: matrix products on the tensor cores by nvcuda::wmma, for half types. Tiles come by asynchronous 16-byte copies, the
// next ones while these are multiplied.
//
// A block of 256 threads has a tile of 128×128 elements of y; each of its 8 warps 64×32 of them, as 4×2 fragments of 16×16. x and
// w lie in memory by rows (T false) or by columns (T true): their tiles lie in shared memory as they do in memory, and a fragment
// is loaded either way.

#include "async_tiles.cuh"
#include "epilogue.cuh"

#include <mma.h>

using namespace nvcuda;

constexpr int SIDE = 128, DEPTH = 32, THREADS = 256, STAGES = 3;

template <bool BY_COLUMNS> struct LayoutOf { using type = wmma::row_major; };
template <> struct LayoutOf<true> { using type = wmma::col_major; };

template <typename T, bool X_T, bool W_T, bool ALIGNED>
__global__ void __launch_bounds__(THREADS)
    matmul_wmma(const T* x, const T* w, const T* bias, const T* dy, T* y, int B, int M, int N, int K, long long x_batch,
                long long x_stride, long long w_batch, long long w_stride, int gelu)
{
    constexpr int X_TILE = X_T ? DEPTH * (SIDE + PAD) : SIDE * (DEPTH + PAD);
    constexpr int W_TILE = W_T ? SIDE * (DEPTH + PAD) : DEPTH * (SIDE + PAD);
    constexpr int X_LINE = (X_T ? SIDE : DEPTH) + PAD, W_LINE = (W_T ? DEPTH : SIDE) + PAD;
    extern __shared__ uint4 shared[];
    T* tiles = (T*)shared;

    // Tiles of y that are computed at the same time share rows and columns: eight below each other, then the next eight.
    const int down = (M + SIDE - 1) / SIDE, across = (N + SIDE - 1) / SIDE;
    const int tile = blockIdx.x % (down * across), first = tile / (8 * across) * 8, height = min(down - first, 8);
    const long long b = blockIdx.x / (down * across);
    const int i = (first + tile % (8 * across) % height) * SIDE, j = tile % (8 * across) / height * SIDE;
    x += b * x_batch + i * (X_T ? 1 : x_stride);
    w += b * w_batch + j * (W_T ? w_stride : 1);

    auto begin = [&](int k, int stage) {
        T* xs = tiles + stage * (X_TILE + W_TILE);
        if (k < K) {
            if constexpr (X_T)
                fetch<THREADS, DEPTH, SIDE, ALIGNED>(xs, x + k * x_stride, x_stride, K - k, M - i);
            else
                fetch<THREADS, SIDE, DEPTH, ALIGNED>(xs, x + k, x_stride, M - i, K - k);
            if constexpr (W_T)
                fetch<THREADS, SIDE, DEPTH, ALIGNED>(xs + X_TILE, w + k, w_stride, N - j, K - k);
            else
                fetch<THREADS, DEPTH, SIDE, ALIGNED>(xs + X_TILE, w + k * w_stride, w_stride, K - k, N - j);
        }
        __pipeline_commit();
    };

    const int warp = threadIdx.x / 32, row = warp / 4 * 64, column = warp % 4 * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[4][2];
    for (int r = 0; r < 4; ++r)
        for (int c = 0; c < 2; ++c) wmma::fill_fragment(sums[r][c], 0.0f);

    using XLayout = typename LayoutOf<X_T>::type;
    using WLayout = typename LayoutOf<W_T>::type;
    for (int stage = 0; stage < STAGES - 1; ++stage) begin(stage * DEPTH, stage);
    for (int k = 0, stage = 0; k < K; k += DEPTH, stage = (stage + 1) % STAGES) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();  // this tile is here, and nothing reads the one before any more
        begin(k + (STAGES - 1) * DEPTH, (stage + STAGES - 1) % STAGES);
        const T *xs = tiles + stage * (X_TILE + W_TILE), *ws = xs + X_TILE;
        for (int inner = 0; inner < DEPTH; inner += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, T, XLayout> of_x[4];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, T, WLayout> of_w[2];
            for (int r = 0; r < 4; ++r)
                wmma::load_matrix_sync(of_x[r], xs + (X_T ? inner * X_LINE + row + 16 * r : (row + 16 * r) * X_LINE + inner), X_LINE);
            for (int c = 0; c < 2; ++c)
                wmma::load_matrix_sync(of_w[c], ws + (W_T ? (column + 16 * c) * W_LINE + inner : inner * W_LINE + column + 16 * c), W_LINE);
            for (int r = 0; r < 4; ++r)
                for (int c = 0; c < 2; ++c) wmma::mma_sync(sums[r][c], of_x[r], of_w[c], sums[r][c]);
        }
    }
    __pipeline_wait_prior(0);
    __syncthreads();

    // Where an element of a fragment lies is the hardware's own affair: through shared memory, 16 rows of the warp at a time.
    float* out = (float*)shared + warp * 16 * 36;
    for (int r = 0; r < 4; ++r) {
        for (int c = 0; c < 2; ++c) wmma::store_matrix_sync(out + 16 * c, sums[r][c], 36, wmma::mem_row_major);
        __syncwarp();
        for (int at = 0; at < 16; ++at) {
            int i_of = i + row + 16 * r + at, j_of = j + column + threadIdx.x % 32;
            long long place = (b * M + i_of) * N + j_of;
            if (i_of < M && j_of < N) y[place] = epilogue(out[at * 36 + threadIdx.x % 32], bias, dy, place, j_of, gelu);
        }
        __syncwarp();
    }
}
