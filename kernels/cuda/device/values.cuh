// SIZE neighbouring values of type T as floats: by one 16-byte vector where SIZE is a vector's, one by one where it is 1.
#pragma once

#include "vectors.cuh"

template <int SIZE, typename T>
__device__ void load_floats(const T* from, float (&values)[SIZE])
{
    if constexpr (SIZE == 1) {
        values[0] = (float)*from;
    } else {
        static_assert(SIZE == Vector<T>::SIZE, "a vector, or one value");
        const Vector<T> vector = load(from);
        for (int p = 0; p < vector.PAIRS; ++p) {
            const float2 pair = to_float2(vector.at[p]);
            values[2 * p] = pair.x;
            values[2 * p + 1] = pair.y;
        }
    }
}

template <int SIZE, typename T>
__device__ void store_floats(T* to, const float (&values)[SIZE])
{
    if constexpr (SIZE == 1) {
        *to = (T)values[0];
    } else {
        static_assert(SIZE == Vector<T>::SIZE, "a vector, or one value");
        Vector<T> vector;
        for (int p = 0; p < vector.PAIRS; ++p) from_float2(vector.at[p], {values[2 * p], values[2 * p + 1]});
        store(to, vector);
    }
}
