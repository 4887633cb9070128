// Rows of values by 16-byte loads and stores. T is float, __half or __nv_bfloat16; the arithmetic is float.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// Two neighbouring columns: what the conversions between T and float take at once.
template <typename T> struct PairOf;
template <> struct PairOf<float> { using type = float2; };
template <> struct PairOf<__half> { using type = __half2; };
template <> struct PairOf<__nv_bfloat16> { using type = __nv_bfloat162; };

__device__ float2 to_float2(float2 pair) { return pair; }
__device__ float2 to_float2(__half2 pair) { return __half22float2(pair); }
__device__ float2 to_float2(__nv_bfloat162 pair)
{
    // A bfloat16 is the upper half of a float. The library's conversion would take the pair apart first.
    unsigned bits = *(unsigned*)&pair;
    return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000)};
}
__device__ void from_float2(float2& pair, float2 value) { pair = value; }
__device__ void from_float2(__half2& pair, float2 value) { pair = __float22half2_rn(value); }
__device__ void from_float2(__nv_bfloat162& pair, float2 value) { pair = __float22bfloat162_rn(value); }

// What one instruction loads or stores. A thread holds VECTORS of them, THREADS apart: neighbouring threads ask for
// neighbouring vectors.
template <typename T>
struct alignas(16) Vector {
    static constexpr int SIZE = 16 / sizeof(T), PAIRS = SIZE / 2;
    typename PairOf<T>::type at[PAIRS];
};

template <typename T>
__device__ Vector<T> load(const T* address)
{
    uint4 bits = *(const uint4*)address;
    return *(Vector<T>*)&bits;
}

// The same for data that is not needed again: the cache may give up its place.
template <typename T>
__device__ Vector<T> load_last(const T* address)
{
    uint4 bits = __ldlu((const uint4*)address);
    return *(Vector<T>*)&bits;
}

template <typename T>
__device__ void store(T* address, Vector<T> vector)
{
    *(uint4*)address = *(uint4*)&vector;
}

// weight or bias at a vector of columns; where there is none, the value that changes nothing.
template <typename T>
__device__ Vector<T> load_columns(const T* columns, int j, float otherwise)
{
    if (columns) return load(columns + j);
    Vector<T> same;
    for (int i = 0; i < Vector<T>::PAIRS; ++i) from_float2(same.at[i], {otherwise, otherwise});
    return same;
}
