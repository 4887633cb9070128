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

// The two vectors that columns from any place on lie in, and the columns in these: value by value each lane would ask for every
// sector again.
template <typename T>
struct InnerColumns {
    int beyond;  // bytes by which they are behind the start of a vector
    uint4 low, high;

    __device__ void load(const T* start)
    {
        beyond = (unsigned long long)start % 16;
        const uint4* from = (const uint4*)((const char*)start - beyond);
        low = from[0], high = from[1];
    }

    __device__ Vector<T> shifted() const
    {
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
};

// Whether the columns from j on, and those vectors, are among N.
template <typename T>
__device__ bool are_inner(int j, int N)
{
    return Vector<T>::SIZE <= j && j + 2 * Vector<T>::SIZE <= N;
}

// The columns from j on, one by one; zeros before 0 and from N on.
template <typename T>
__device__ Vector<T> end_columns(const T* columns, int j, int N)
{
    constexpr int SIZE = Vector<T>::SIZE;
    T values[SIZE];  // all are asked for before the first is put in its place
    for (int i = 0; i < SIZE; ++i) {
        values[i] = (T)0.0f;
        if (0 <= j + i && j + i < N) values[i] = columns[j + i];
    }
    Vector<T> vector;
    for (int i = 0; i < SIZE; ++i) ((T*)&vector)[i] = values[i];
    return vector;
}

// As load_columns, at the columns from j on, wherever j lies.
template <typename T>
__device__ Vector<T> load_columns_at(const T* columns, int j, int N, float otherwise)
{
    if (!columns) return load_columns(columns, 0, otherwise);
    if (!are_inner<T>(j, N)) return end_columns(columns, j, N);
    InnerColumns<T> inner;
    inner.load(columns + j);
    return inner.shifted();
}

// The same of several vectors, of at least 4 * SIZE columns: all are on their way at once, and only then those at the ends.
template <int VECTORS, typename T, typename Column>
__device__ void load_columns_at(Vector<T> (&vectors)[VECTORS], const T* columns, Column column, int N, float otherwise)
{
    constexpr int SIZE = Vector<T>::SIZE;
    if (!columns) {
        for (Vector<T>& one : vectors) one = load_columns(columns, 0, otherwise);
        return;
    }
    InnerColumns<T> inner[VECTORS];
    for (int k = 0; k < VECTORS; ++k)  // instead of those at the ends some that start as they do within a vector: no branch
        inner[k].load(columns + (are_inner<T>(column(k), N) ? column(k) : SIZE + (column(k) & (SIZE - 1))));
    for (int k = 0; k < VECTORS; ++k)
        vectors[k] = are_inner<T>(column(k), N) ? inner[k].shifted() : end_columns(columns, column(k), N);
}
