// Values copied by a block as whole vectors, whatever they belong to.
#pragma once

#include <cuda_pipeline_primitives.h>

#include "vectors.cuh"

// Copies `count` values between two multiples of 16 bytes, of global or shared memory.
template <typename T>
__device__ void copy_vectors(const T* from, T* to, int count)
{
    constexpr int SIZE = Vector<T>::SIZE;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    const int in_vectors = count / SIZE * SIZE;
    for (int j = thread * SIZE; j < in_vectors; j += threads * SIZE) *(uint4*)(to + j) = *(const uint4*)(from + j);
    for (int j = in_vectors + thread; j < count; j += threads) to[j] = from[j];
}

constexpr int AHEAD_VALUES = 16;  // that a thread has room for, beside what it computes with

// Begins to copy from global to shared memory: all of a thread's vectors are on their way at once, and no register holds one. They
// are there after __pipeline_wait_prior.
template <typename T>
__device__ void begin_copy(const T* from, T* to, int count)
{
    constexpr int SIZE = Vector<T>::SIZE;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    const int in_vectors = count / SIZE * SIZE;
    for (int j = thread * SIZE; j < in_vectors; j += threads * SIZE) __pipeline_memcpy_async(to + j, from + j, 16);
    __pipeline_commit();
    for (int j = in_vectors + thread; j < count; j += threads) to[j] = from[j];
}
