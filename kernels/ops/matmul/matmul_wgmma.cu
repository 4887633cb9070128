// Level 5: matrix products for Hopper GPUs, of half types, by TMA and wgmma.
//
// There are as many blocks as multiprocessors, and each takes every n-th tile of ROWS×COLUMNS elements of y, n being the number
// of blocks. A block is three warpgroups with a role each. One thread of the first, the producer, asks TMA for tiles of x and w,
// which come into a ring of STAGES stages in shared memory. The other two, the consumers, multiply them, 64 rows of the tile at
// a time, and store what they have added up, while the producer asks for the next tile's already.
//
// A stage has two barriers: `full`, on which consumers wait for its bytes, and `empty`, on which the producer waits for them.
//
// x and w lie in memory by rows (T false) or by columns (T true), and so do their tiles in shared memory: in lines of 64
// elements, 128 bytes, swizzled by TMA so that wgmma reads them without bank conflicts. Where lines go along K, there is one for
// each row of the tile. Where they go along M or N, a line has 64 of these, and parts of DEPTH lines lie one after the other.

#include "epilogue.cuh"
#include "quads.cuh"
#include "tile_order.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

constexpr int DEPTH = 64, LINE = 64, CONSUMERS = 2, WARPGROUP = 128, GROUP = 8;
constexpr int PART = LINE * DEPTH;  // elements of 64 lines

// Asks for the part of x or w that a stage takes: SIDE rows or columns from `side`, of DEPTH products from k.
template <bool ALONG_SIDE, int SIDE, typename T>
__device__ void fetch(T* to, const TensorMap& map, int side, int k, Barrier* full)
{
    if constexpr (ALONG_SIDE)
        for (int part = 0; part < SIDE / LINE; ++part) fetch_tile(to + part * PART, map, side + part * LINE, k, full);
    else
        fetch_tile(to, map, k, side, full);
}

template <typename T>
__device__ unsigned packed(T low, T high)
{
    return (unsigned)__builtin_bit_cast(unsigned short, high) << 16 | __builtin_bit_cast(unsigned short, low);
}

// Stores 64 rows of a tile, from row i and column j of y, that the four warps of a warpgroup have in their registers as wgmma
// leaves them. `finished(h, at, column)` is what is stored of a sum h. It is asked for what is beyond y, too, at the place of
// an element at the edge: with a branch around each element, a thread would work on one at a time.
template <typename T, int SUMS, typename Finished>
__device__ void store(T* y, const float (&sums)[SUMS], int i, int j, int M, int N, Finished finished)
{
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const bool vectors = N % 8 == 0;
#pragma unroll
    for (int c = 0; c < SUMS / 16; ++c) {  // 32 columns at a time
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = i + 16 * warp + lane / 4 + 8 * half;
            const long long line = (long long)row * N, inside = (long long)min(row, M - 1) * N;
            unsigned pairs[4];
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                const int column = j + 32 * c + 8 * q + 2 * (lane % 4), low = min(column, N - 1), high = min(column + 1, N - 1);
                const float* h = sums + 16 * c + 4 * q + 2 * half;
                pairs[q] = packed(finished(h[0], inside + low, low), finished(h[1], inside + high, high));
            }
            if (vectors) {  // four lanes have two of each eight columns: then each has all of one eight
                transpose_quad(pairs);
                const int column = j + 32 * c + 8 * (lane % 4);
                if (row < M && column < N) *(uint4*)(y + line + column) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
            } else {
#pragma unroll
                for (int e = 0; e < 8; ++e) {
                    const int column = j + 32 * c + 8 * (e / 2) + 2 * (lane % 4) + e % 2;
                    const unsigned short bits = pairs[e / 2] >> 16 * (e % 2);
                    if (row < M && column < N) y[line + column] = __builtin_bit_cast(T, bits);
                }
            }
        }
    }
}

template <typename T, bool X_T, bool W_T, int ROWS, int COLUMNS, int STAGES, bool BIAS, bool GELU, bool DY>
__global__ void __launch_bounds__((CONSUMERS + 1) * WARPGROUP, 1)
    matmul_wgmma(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w, const T* bias, const T* dy, T* y,
                 int M, int N, int K)
{
    constexpr int X_TILE = ROWS * DEPTH, W_TILE = COLUMNS * DEPTH, ROW_TILES = ROWS / CONSUMERS / 64;
    extern __shared__ uint4 shared[];
    __shared__ Barrier full[STAGES], empty[STAGES];
    // The swizzle goes by addresses: tiles begin at multiples of eight lines.
    T* ring = (T*)((char*)shared + (1024 - shared_address(shared) % 1024) % 1024);

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            begin(&full[stage], 1);
            begin(&empty[stage], CONSUMERS * WARPGROUP / 32);
        }
        barriers_begun();
    }
    __syncthreads();

    const int down = (M + ROWS - 1) / ROWS, across = (N + COLUMNS - 1) / COLUMNS, steps = (K + DEPTH - 1) / DEPTH;
    int stage = 0, parity = 0;
    auto advance = [&] {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    };

    if (threadIdx.x < WARPGROUP) {
        give_registers<24>();
        if (threadIdx.x) return;
        prefetch(x);
        prefetch(w);
        for (int tile = blockIdx.x; tile < down * across; tile += gridDim.x) {
            const Place place = tile_at<GROUP>(tile, down, across);
            for (int step = 0; step < steps; ++step, advance()) {
                T* xs = ring + stage * (X_TILE + W_TILE);
                wait(&empty[stage], parity ^ 1);
                arrive_expecting(&full[stage], (X_TILE + W_TILE) * sizeof(T));
                fetch<X_T, ROWS>(xs, x, place.down * ROWS, step * DEPTH, &full[stage]);
                fetch<!W_T, COLUMNS>(xs + X_TILE, w, place.across * COLUMNS, step * DEPTH, &full[stage]);
            }
        }
    } else {
        take_registers<240>();
        const int first = (threadIdx.x / WARPGROUP - 1) * ROW_TILES;  // of the tile's 64 rows each
        float sums[ROW_TILES][COLUMNS / 2];
        for (int tile = blockIdx.x; tile < down * across; tile += gridDim.x) {
            for (int step = 0; step < steps; ++step) {
                wait(&full[stage], parity);
                const T *xs = ring + stage * (X_TILE + W_TILE) + first * PART, *ws = ring + stage * (X_TILE + W_TILE) + X_TILE;
                products_begin();
#pragma unroll
                for (int inner = 0; inner < DEPTH; inner += 16) {
#pragma unroll
                    for (int r = 0; r < ROW_TILES; ++r) {
                        const T* x_start = xs + r * PART + (X_T ? inner * LINE : inner);
                        const T* w_start = ws + (W_T ? inner : inner * LINE);
                        multiply_add<T, X_T, !W_T>(sums[r], described(x_start, PART * sizeof(T)),
                                                   described(w_start, PART * sizeof(T)), step > 0 || inner > 0);
                    }
                }
                products_end();
                // The products before these are done, and with them the stage before.
                wait_products<1>();
                if (step > 0 && threadIdx.x % 32 == 0) arrive(&empty[stage ? stage - 1 : STAGES - 1]);
                advance();
            }
            wait_products<0>();
            if (threadIdx.x % 32 == 0) arrive(&empty[stage ? stage - 1 : STAGES - 1]);

            const Place place = tile_at<GROUP>(tile, down, across);
#pragma unroll
            for (int r = 0; r < ROW_TILES; ++r) {
                const int i = place.down * ROWS + (first + r) * 64, j = place.across * COLUMNS;
                store(y, sums[r], i, j, M, N, [&](float h, long long at, int column) {
                    return epilogue(h, BIAS ? bias : nullptr, DY ? dy : nullptr, at, column, GELU);
                });
            }
        }
    }
}
