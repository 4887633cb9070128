// Level 5: matrix products on the tensor cores by nvcuda::wmma, for half types. Tiles come by asynchronous 16-byte copies, the
// next ones while these are multiplied.
//
// A block has a tile of ROWS×COLUMNS elements of y; each of its warps 64×64 of them, as 4×4 fragments of 16×16. x and w lie in
// memory by rows (T false) or by columns (T true): their tiles lie in shared memory as they do in memory, and a fragment is
// loaded either way.

#include "async_tiles.cuh"
#include "epilogue.cuh"
#include "fragments.cuh"
#include "tile_order.cuh"

using namespace nvcuda;

constexpr int PART = 64, GROUP = 8;  // PART: rows and columns of a warp

template <bool BY_COLUMNS> struct LayoutOf { using type = wmma::row_major; };
template <> struct LayoutOf<true> { using type = wmma::col_major; };

// A warp's 16 rows of sums, which lie LINE apart, to row i and column j of a matrix y: SIZE neighbours at a time. A request of
// the warp is for 32 columns, and as many rows as its lanes are enough for.
template <int SIZE, int LINE, typename T>
__device__ void store_rows(const float* sums, T* y, const T* bias, const T* dy, int i, int j, int M, int N, int gelu)
{
    constexpr int ACROSS = 32 / SIZE, AT_ONCE = SIZE < 4 ? SIZE : 4;  // lanes of a row; sums of a load
    const int lane = threadIdx.x % 32;
    for (int row = lane / ACROSS; row < 16; row += SIZE) {
        for (int column = lane % ACROSS * SIZE; column < PART; column += 32) {
            if (i + row >= M || j + column >= N) continue;
            float h[SIZE];
            for (int n = 0; n < SIZE; n += AT_ONCE) load_floats(sums + row * LINE + column + n, (float(&)[AT_ONCE])h[n]);
            const long long at = (long long)(i + row) * N + j + column;
            epilogue(h, bias, dy, at, j + column, gelu);
            if constexpr (SIZE == 1) {
                y[at] = (T)h[0];
            } else {
                Vector<T> vector;
                store_floats((T*)&vector, h);
                __stwb((uint4*)(y + at), *(uint4*)&vector);  // of a plain store NVRTC makes four here
            }
        }
    }
}

template <typename T, bool X_T, bool W_T, bool ALIGNED, int ROWS, int COLUMNS, int DEPTH, int STAGES>
__global__ void __launch_bounds__(ROWS / PART * (COLUMNS / PART) * 32, 256 / (ROWS / PART * (COLUMNS / PART) * 32))
    matmul_wmma(const T* x, const T* w, const T* bias, const T* dy, T* y, int B, int M, int N, int K, long long x_batch,
                long long x_stride, long long w_batch, long long w_stride, int gelu, int vectors)
{
    constexpr int ACROSS = COLUMNS / PART, THREADS = ROWS / PART * ACROSS * 32;
    constexpr int X_TILE = X_T ? DEPTH * (ROWS + PAD) : ROWS * (DEPTH + PAD);
    constexpr int W_TILE = W_T ? COLUMNS * (DEPTH + PAD) : DEPTH * (COLUMNS + PAD);
    constexpr int X_LINE = (X_T ? ROWS : DEPTH) + PAD, W_LINE = (W_T ? DEPTH : COLUMNS) + PAD;
    extern __shared__ uint4 shared[];
    T* tiles = (T*)shared;

    const int down = (M + ROWS - 1) / ROWS, across = (N + COLUMNS - 1) / COLUMNS;
    const Place place = tile_at<GROUP>(blockIdx.x % (down * across), down, across);
    const long long b = blockIdx.x / (down * across);
    const int i = place.down * ROWS, j = place.across * COLUMNS;
    x += b * x_batch + i * (X_T ? 1 : x_stride);
    w += b * w_batch + j * (W_T ? w_stride : 1);

    Tiles<THREADS, X_T ? DEPTH : ROWS, X_T ? ROWS : DEPTH, ALIGNED, T> x_tiles(x, x_stride, DEPTH * (X_T ? x_stride : 1));
    Tiles<THREADS, W_T ? COLUMNS : DEPTH, W_T ? DEPTH : COLUMNS, ALIGNED, T> w_tiles(w, w_stride, DEPTH * (W_T ? 1 : w_stride));
    auto begin = [&](int k, unsigned stage) {
        T* tile = tiles + stage * (X_TILE + W_TILE);
        if (k < K) {
            x_tiles.fetch_next(tile, X_T ? K - k : M - i, X_T ? M - i : K - k);
            w_tiles.fetch_next(tile + X_TILE, W_T ? N - j : K - k, W_T ? K - k : N - j);
        }
        __pipeline_commit();
    };

    const int warp = threadIdx.x / 32, row = warp / ACROSS * PART, column = warp % ACROSS * PART;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[4][4];
    for (int r = 0; r < 4; ++r)
        for (int c = 0; c < 4; ++c) wmma::fill_fragment(sums[r][c], 0.0f);

    // Two sets of fragments: the next 16 of k are loaded into one while those in the other are multiplied.
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, typename LayoutOf<X_T>::type> x_fragment[2][4];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, typename LayoutOf<W_T>::type> w_fragment[2][4];
    auto load = [&](int set, unsigned stage, int inner) {
        const T* xs = tiles + stage * (X_TILE + W_TILE) + row * (X_T ? 1 : X_LINE) + inner * (X_T ? X_LINE : 1);
        const T* ws = tiles + stage * (X_TILE + W_TILE) + X_TILE + column * (W_T ? W_LINE : 1) + inner * (W_T ? 1 : W_LINE);
        load_four<X_T ? 16 : 16 * X_LINE>(x_fragment[set], xs, X_LINE);
        load_four<W_T ? 16 * W_LINE : 16>(w_fragment[set], ws, W_LINE);
    };
    auto arrive = [&] {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();  // the next tile is here, and nothing reads the one before any more
    };

    for (unsigned stage = 0; stage < STAGES - 1; ++stage) begin(stage * DEPTH, stage);
    arrive();
    load(0, 0, 0);
    unsigned stage = 0;
    for (int k = 0; k < K; k += DEPTH) {
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
                for (int c = 0; c < 4; ++c) wmma::mma_sync(sums[r][c], x_fragment[set][r], w_fragment[set][c], sums[r][c]);
        }
    }
    __pipeline_wait_prior(0);
    __syncthreads();

    // Where an element of a fragment lies is the hardware's own affair: through shared memory, 16 rows of the warp at a time.
    constexpr int LINE = PART + 4;
    float* out = (float*)shared + warp * 16 * LINE;
    y += b * M * N;
    if (dy) dy += b * M * N;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        for (int c = 0; c < 4; ++c) wmma::store_matrix_sync(out + 16 * c, sums[r][c], LINE, wmma::mem_row_major);
        __syncwarp();
        if (vectors)
            store_rows<8, LINE>(out, y, bias, dy, i + row + 16 * r, j + column, M, N, gelu);
        else
            store_rows<1, LINE>(out, y, bias, dy, i + row + 16 * r, j + column, M, N, gelu);
        __syncwarp();
    }
}
