// Level 5: matrix products on the tensor cores by nvcuda::wmma, for half types. Tiles come by asynchronous 16-byte copies, the
// next ones while these are multiplied.
//
// A block of 128 threads has a tile of 128×128 elements of y; each of its 4 warps 64×64 of them, as 4×4 fragments of 16×16. x
// and w lie in memory by rows (T false) or by columns (T true): their tiles lie in shared memory as they do in memory, and a
// fragment is loaded either way.

#include "async_tiles.cuh"
#include "epilogue.cuh"
#include "fragments.cuh"

using namespace nvcuda;

constexpr int SIDE = 128, DEPTH = 32, THREADS = 128, STAGES = 3;

template <bool BY_COLUMNS> struct LayoutOf { using type = wmma::row_major; };
template <> struct LayoutOf<true> { using type = wmma::col_major; };

template <typename T, bool X_T, bool W_T, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2)
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
                fetch_at_once<THREADS, DEPTH, SIDE, ALIGNED>(xs, x + k * x_stride, x_stride, K - k, M - i);
            else
                fetch_at_once<THREADS, SIDE, DEPTH, ALIGNED>(xs, x + k, x_stride, M - i, K - k);
            if constexpr (W_T)
                fetch_at_once<THREADS, SIDE, DEPTH, ALIGNED>(xs + X_TILE, w + k, w_stride, N - j, K - k);
            else
                fetch_at_once<THREADS, DEPTH, SIDE, ALIGNED>(xs + X_TILE, w + k * w_stride, w_stride, K - k, N - j);
        }
        __pipeline_commit();
    };

    const int warp = threadIdx.x / 32, row = warp / 2 * 64, column = warp % 2 * 64;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[4][4];
    for (int r = 0; r < 4; ++r)
        for (int c = 0; c < 4; ++c) wmma::fill_fragment(sums[r][c], 0.0f);

    // Two sets of fragments: the next 16 of k are loaded into one while those in the other are multiplied.
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, typename LayoutOf<X_T>::type> of_x[2][4];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, typename LayoutOf<W_T>::type> of_w[2][4];
    auto load = [&](int set, int stage, int inner) {
        const T *xs = tiles + stage * (X_TILE + W_TILE), *ws = xs + X_TILE;
        for (int r = 0; r < 4; ++r) {
            const int i_of = row + 16 * r;
            load_fragment(of_x[set][r], xs + (X_T ? inner * X_LINE + i_of : i_of * X_LINE + inner), X_LINE);
        }
        for (int c = 0; c < 4; ++c) {
            const int j_of = column + 16 * c;
            load_fragment(of_w[set][c], ws + (W_T ? j_of * W_LINE + inner : inner * W_LINE + j_of), W_LINE);
        }
    };
    auto arrive = [&] {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();  // the next tile is here, and nothing reads the one before any more
    };

    for (int stage = 0; stage < STAGES - 1; ++stage) begin(stage * DEPTH, stage);
    arrive();
    load(0, 0, 0);
    for (int k = 0, stage = 0; k < K; k += DEPTH) {
        begin(k + (STAGES - 1) * DEPTH, (stage + STAGES - 1) % STAGES);
        #pragma unroll
        for (int inner = 0; inner < DEPTH; inner += 16) {
            const int set = inner / 16 % 2;
            if (inner + 16 < DEPTH) {
                load(1 - set, stage, inner + 16);
            } else if (k + DEPTH < K) {
                arrive();
                stage = (stage + 1) % STAGES;
                load(1 - set, stage, 0);
            }
            for (int r = 0; r < 4; ++r)
                for (int c = 0; c < 4; ++c) wmma::mma_sync(sums[r][c], of_x[set][r], of_w[set][c], sums[r][c]);
        }
    }
    __pipeline_wait_prior(0);
    __syncthreads();

    // Where an element of a fragment lies is the hardware's own affair: through shared memory, 16 rows of the warp at a time.
    constexpr int LINE = 64 + 4;
    float* out = (float*)shared + warp * 16 * LINE;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        for (int c = 0; c < 4; ++c) wmma::store_matrix_sync(out + 16 * c, sums[r][c], LINE, wmma::mem_row_major);
        __syncwarp();
        for (int at = threadIdx.x % 32; at < 16 * 64; at += 32) {
            int i_of = i + row + 16 * r + at / 64, j_of = j + column + at % 64;
            long long place = (b * M + i_of) * N + j_of;
            if (i_of < M && j_of < N) y[place] = epilogue(out[at / 64 * LINE + at % 64], bias, dy, place, j_of, gelu);
        }
        __syncwarp();
    }
}
