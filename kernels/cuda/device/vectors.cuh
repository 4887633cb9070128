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
    // As two words of 64 bits: of four words NVRTC may make four stores, each with 4 bytes in every 16.
    *(ulonglong2*)address = *(ulonglong2*)&vector;
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

// The same at the columns from j on, wherever j lies: some may be before column 0 or from N on, where the value is as good as
// any. The two vectors that these columns lie in are read and shifted; one by one, each lane would ask for every sector again.
template <typename T>
__device__ Vector<T> load_columns_at(const T* columns, int j, int N, float otherwise)
{
    constexpr int SIZE = Vector<T>::SIZE;
    if (!columns) return load_columns(columns, 0, otherwise);
    const int beyond = (unsigned long long)(columns + j) % 16;  // bytes by which j is behind the start of a vector
    if (beyond == 0 && 0 <= j && j + SIZE <= N) return load(columns + j);
    if (j < SIZE || j + 2 * SIZE > N) {
        Vector<T> edge = {};
        for (int i = 0; i < SIZE; ++i)
            if (0 <= j + i && j + i < N) ((T*)&edge)[i] = columns[j + i];
        return edge;
    }
    const uint4* from = (const uint4*)((const char*)(columns + j) - beyond);
    const uint4 low = from[0], high = from[1];
    unsigned word[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    if (beyond & 8)
        for (int i = 0; i < 6; ++i) word[i] = word[i + 2];
    if (beyond & 4)
        for (int i = 0; i < 5; ++i) word[i] = word[i + 1];
    if (beyond & 2)
        for (int i = 0; i < 4; ++i) word[i] = __funnelshift_r(word[i], word[i + 1], 16);
    uint4 bits = {word[0], word[1], word[2], word[3]};
    return *(Vector<T>*)&bits;
}
