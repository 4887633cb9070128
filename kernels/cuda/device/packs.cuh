// Rows of values by loads and stores as wide as the rows' alignment allows: 16 bytes where they are whole vectors, one value in
// the worst case, by the same kernel. T is float, __half or __nv_bfloat16; the arithmetic is float.
#pragma once

#include "vectors.cuh"

// What one instruction loads or stores.
template <int BYTES> struct BitsOf;
template <> struct BitsOf<2> { using type = unsigned short; };
template <> struct BitsOf<4> { using type = unsigned; };
template <> struct BitsOf<8> { using type = uint2; };
template <> struct BitsOf<16> { using type = uint4; };

// SIZE neighbouring values, as they were loaded. Of single ones of 16 bits the compiler would make words again: for that it waits
// for the load, and the next load would wait, too.
template <typename T, int SIZE>
struct Pack {
    using Bits = typename BitsOf<SIZE * sizeof(T)>::type;
    Bits bits;
};

template <int SIZE>
struct Floats {
    float at[SIZE];
};

template <int SIZE, typename T>
__device__ Pack<T, SIZE> load_pack(const T* address)
{
    return {*(const typename Pack<T, SIZE>::Bits*)address};
}

template <typename T, int SIZE>
__device__ Floats<SIZE> widened(Pack<T, SIZE> pack)
{
    Floats<SIZE> wide;
    if constexpr (SIZE == 1) {
        wide.at[0] = (float)*(T*)&pack.bits;
    } else {
        for (int i = 0; i < SIZE; i += 2) {
            float2 pair = to_float2(((typename PairOf<T>::type*)&pack.bits)[i / 2]);
            wide.at[i] = pair.x;
            wide.at[i + 1] = pair.y;
        }
    }
    return wide;
}

template <int SIZE, typename T>
__device__ Floats<SIZE> load_floats(const T* address)
{
    return widened(load_pack<SIZE>(address));
}

template <int SIZE, typename T>
__device__ void store_floats(T* address, Floats<SIZE> wide)
{
    Pack<T, SIZE> pack;
    if constexpr (SIZE == 1) {
        *(T*)&pack.bits = (T)wide.at[0];
    } else {
        for (int i = 0; i < SIZE; i += 2)
            from_float2(((typename PairOf<T>::type*)&pack.bits)[i / 2], {wide.at[i], wide.at[i + 1]});
    }
    *(typename Pack<T, SIZE>::Bits*)address = pack.bits;
}
