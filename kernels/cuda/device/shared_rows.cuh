// Rows that stay in shared memory: read once, by 16-byte vectors, wherever they start, and shared by the blocks of a cluster
// where they are wide. That leaves registers for more blocks on a multiprocessor: while one waits for its row, another computes.
//
// A block has (THREADS, ROWS) threads, one row for each y: whole warps in all. THREADS is a power of two, and ROWS is 1 if it is
// more than 32. A thread has VECTORS vectors, THREADS apart. The dynamic shared memory: 16 bytes for each vector of the block
// and each matrix that is read.
//
// CLUSTER blocks share a row; with more than 1 they tell each other what they know of it through each other's shared memory,
// which only a GPU of sm_90 or newer does.
#pragma once

#include "cluster.cuh"
#include "reductions.cuh"
#include "vectors.cuh"

#include <cuda_pipeline_primitives.h>

// A row of every matrix, which may start and end within a vector; all of them do so alike. In shared memory a thread reads only
// what it has copied there, so that it waits for no other.
template <typename T, int VECTORS, int THREADS, int ROWS>
struct Row {
    static constexpr int SIZE = Vector<T>::SIZE;
    long long M, i;
    int N, first;  // the columns of a row, and the one at which this thread's vector 0 starts
    Vector<T>* slots;

    // out: of the matrix that is written, which is contiguous.
    __device__ Row(const T* out, long long M, int N) : M(M), i((long long)(blockIdx.x / CLUSTER) * ROWS + threadIdx.y), N(N)
    {
        extern __shared__ uint4 shared[];
        slots = (Vector<T>*)shared + threadIdx.y * THREADS + threadIdx.x;
        int before = (unsigned long long)(out + i * N) / sizeof(T) % SIZE;  // columns of the row before in the first vector
        first = ((int)(blockIdx.x % CLUSTER) * VECTORS * THREADS + (int)threadIdx.x) * SIZE - before;
    }

    __device__ T* at(int k, int input = 0) const { return (T*)(slots + (input * VECTORS + k) * THREADS * ROWS); }
    __device__ int column(int k, int j = 0) const { return first + k * THREADS * SIZE + j; }
    __device__ bool has(int k) const { return i < M && column(k) < N; }
    __device__ bool has(int k, int j) const { return 0 <= column(k, j) && column(k, j) < N; }
    __device__ bool whole(int k) const { return has(k, 0) && has(k, SIZE - 1); }

    // Starts to copy the row of x.
    __device__ void fetch(const T* x, long long stride, int input = 0)
    {
        for (int k = 0; k < VECTORS; ++k) {
            if (!has(k)) continue;
            // A vector shared with a neighbouring row is copied as a whole; before the first row and after the last is none.
            const long long from = i * stride + column(k);
            if (0 <= from && from + SIZE <= (M - 1) * stride + N)
                __pipeline_memcpy_async(at(k, input), x + from, 16);
            else
                for (int j = 0; j < SIZE; ++j)
                    if (has(k, j)) at(k, input)[j] = x[from + j];
        }
        __pipeline_commit();
    }

    // Waits for so many inputs, and puts `neutral` in place of what is there of neighbouring rows.
    __device__ void wait(int inputs, float neutral)
    {
        __pipeline_wait_prior(0);
        for (int k = 0; k < VECTORS; ++k)
            if (has(k) && !whole(k))
                for (int j = 0; j < SIZE; ++j)
                    for (int input = 0; input < inputs && !has(k, j); ++input) at(k, input)[j] = (T)neutral;
    }

    __device__ void put(T* out, int k, Vector<T> vector) const
    {
        out += i * N + column(k);
        if (whole(k)) return store(out, vector);
        for (int j = 0; j < SIZE; ++j)
            if (has(k, j)) out[j] = ((T*)&vector)[j];
    }
};

// Called first. `row_joined` waits until all blocks of the cluster have: before, none may write to another.
__device__ void begin()
{
#if CLUSTER > 1
    cooperative_groups::this_cluster().barrier_arrive();
#endif
}

// What the THREADS * CLUSTER threads of a row know, as one, given to each of them. A second call takes another CALL, so that
// no barrier is needed between reading for the one and writing for the other.
template <int THREADS, int CALL = 0, typename P>
__device__ P row_joined(P part)
{
    static_assert(CLUSTER == 1 || THREADS > 32, "a cluster's blocks have several warps");
    if constexpr (THREADS <= 32) {
        return joined<THREADS>(part);
    } else {
        __shared__ P warp_parts[32];
        part = block_joined(part, warp_parts);
#if CLUSTER > 1
        __shared__ P block_parts[CLUSTER];
        auto cluster = cooperative_groups::this_cluster();
        if constexpr (CALL == 0) cluster.barrier_wait();
        if (threadIdx.x < CLUSTER) *cluster.map_shared_rank(&block_parts[cluster.block_rank()], threadIdx.x) = part;
        cluster.sync();
        part = joined<CLUSTER>(block_parts[threadIdx.x % CLUSTER]);
#endif
        return part;
    }
}
