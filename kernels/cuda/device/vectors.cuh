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

// The columns from j on, wherever j lies, of at least 4 * SIZE. The two vectors that they lie in are read and shifted: one by one,
// each lane would ask for every sector again. No branch: several are asked for at once. Near an end, `end_columns` is called later.
template <typename T>
__device__ Vector<T> inner_columns(const T* columns, int j, int N)
{
    constexpr int SIZE = Vector<T>::SIZE;
    // Columns that start as j does within a vector, where those are not all there.
    const T* start = columns + (j < SIZE || j + 2 * SIZE > N ? SIZE + (j & (SIZE - 1)) : j);
    const int beyond = (unsigned long long)start % 16;  // bytes by which it is behind the start of a vector
    const uint4* from = (const uint4*)((const char*)start - beyond);
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

// Puts right what is near an end: of columns before 0 or from N on the value is as good as any.
template <typename T>
__device__ void end_columns(Vector<T>& vector, const T* columns, int j, int N)
{
    constexpr int SIZE = Vector<T>::SIZE;
    if (SIZE <= j && j + 2 * SIZE <= N) return;
    T values[SIZE];
    for (int i = 0; i < SIZE; ++i) values[i] = columns[min(max(j + i, 0), N - 1)];
    for (int i = 0; i < SIZE; ++i) ((T*)&vector)[i] = values[i];
}

// As load_columns, at the columns from j on.
template <typename T>
__device__ Vector<T> load_columns_at(const T* columns, int j, int N, float otherwise)
{
    if (!columns) return load_columns(columns, 0, otherwise);
    Vector<T> vector = inner_columns(columns, j, N);
    end_columns(vector, columns, j, N);
    return vector;
}

// The same of several vectors: all are on their way at once.
template <int VECTORS, typename T, typename Column>
__device__ void load_columns_at(Vector<T> (&vectors)[VECTORS], const T* columns, Column column, int N, float otherwise)
{
    if (!columns) {
        for (Vector<T>& one : vectors) one = load_columns(columns, 0, otherwise);
        return;
    }
    for (int k = 0; k < VECTORS; ++k) vectors[k] = inner_columns(columns, column(k), N);
    for (int k = 0; k < VECTORS; ++k) end_columns(vectors[k], columns, column(k), N);
}
