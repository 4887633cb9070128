// So few rows that all are on the GPU at a time, at whatever places they start: what backward kernels of norms share.
// kernels/cuda/few.py says how many threads, packs and rows there are.
#pragma once

#include "packs.cuh"
#include "reductions.cuh"

constexpr int MOST_THREADS = 512;  // of a block, unless it is said otherwise

// Room for some values of each thread: see Few::place.
template <int VALUES, int THREADS = MOST_THREADS>
using Meeting = float[VALUES * (THREADS + 32)];

// The values of a thread, in blocks of (a row's threads, rows), whole warps a row or LANES of one: PACKS packs of SIZE in each of
// ROWS rows. The threads of a warp have a part of the row.
template <int SIZE, int PACKS, int ROWS, int LANES>
struct Few {
    static constexpr int PART_COLUMNS = PACKS * LANES * SIZE;
    int lane = threadIdx.x % LANES, part = threadIdx.x / LANES;
    int parts = LANES < 32 ? 1 : blockDim.x / LANES;  // where the compiler knows it, there is no code for several

    __device__ int column(int p) const
    {
        return part * PART_COLUMNS + (p * LANES + lane) * SIZE;
    }

    __device__ long long row(int k) const
    {
        return (long long)(blockIdx.x * ROWS + k) * blockDim.y + threadIdx.y;
    }

    // Its packs of a vector, if there is one.
    template <typename T>
    __device__ void load(Pack<T, SIZE> (&packs)[PACKS], const T* from, int N) const
    {
        for (int p = 0; p < PACKS; ++p) {
            const bool there = (from != nullptr) & (column(p) < N);
            if (there) packs[p] = load_pack<SIZE>(from + column(p));
        }
    }

    // Its packs of a matrix, zeros where there are none. No branch and little arithmetic: no load waits for another.
    template <typename T>
    __device__ void load(Pack<T, SIZE> (&packs)[ROWS][PACKS], const T* from, long long stride, long long M, int N) const
    {
        const T* start = from + row(0) * stride + column(0);
        for (int k = 0; k < ROWS; ++k, start += blockDim.y * stride)
            for (int p = 0; p < PACKS; ++p) {
                const bool there = (row(k) < M) & (column(p) < N);
                packs[k][p] = {};
                if (there) packs[k][p] = load_pack<SIZE>(start + p * LANES * SIZE);
            }
    }

    // Where the value v of pack p of a thread stands in `meeting`: threads side by side, and a warp that reads 32 neighbouring
    // columns, of 32 / SIZE threads, finds them in 32 banks.
    __device__ int place(int p, int v, int thread) const
    {
        return (p * SIZE + v) * ((int)(blockDim.x * blockDim.y) + 32 / SIZE) + thread;
    }

    // Adds up what the threads of a column have, always in the same order: to a vector, or, where there are more blocks than one,
    // to this block's row of partial. A thread then has a column, so that neighbours store neighbours.
    template <typename T>
    __device__ void add_up(const Floats<SIZE> (&sums)[PACKS], float* meeting, T* to, float* partial, int N) const
    {
        const int threads = blockDim.x * blockDim.y, thread = threadIdx.y * blockDim.x + threadIdx.x;
        if (blockDim.y == 1) {  // there is nothing to add
            for (int p = 0; p < PACKS; ++p) {
                if (column(p) >= N) continue;
                if (gridDim.x > 1)
                    store_floats(partial + column(p), sums[p]);
                else
                    store_floats(to + column(p), sums[p]);
            }
            return;
        }
        __syncthreads();
        for (int p = 0; p < PACKS; ++p)
            for (int v = 0; v < SIZE; ++v) {
                float sum = sums[p].at[v];
                // A warp that has several rows adds them up itself, in pairs: so many in a chain would each be rounded.
                for (int lanes = LANES; lanes < 32; lanes *= 2) sum += __shfl_xor_sync(0xffffffff, sum, lanes);
                meeting[place(p, v, thread)] = sum;
            }
        __syncthreads();
        for (int j = thread; j < N; j += threads) {
            const int p = j / (LANES * SIZE) % PACKS, owner = j / PART_COLUMNS * LANES + j / SIZE % LANES;
            float sum = 0.0f;
            for (int y = 0; y < blockDim.y; y += 32 / LANES) sum += meeting[place(p, j % SIZE, y * blockDim.x + owner)];
            if (gridDim.x > 1)
                partial[j] = sum;
            else
                to[j] = (T)sum;
        }
    }
};
