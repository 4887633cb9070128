// Rows that start and end within a 16-byte vector, and lie in shared memory as whole ones.
#pragma once

#include "vectors.cuh"

// Puts zeros in place of what a vector has of neighbouring rows, or, where it is not `copied`, first what it has of its own, which
// is at `from`. has(j) is whether its j-th value is the row's.
template <typename T, typename Has>
__device__ void keep_own(Vector<T>* vector, bool copied, const T* from, Has has)
{
    Vector<T> own = {};
    if (copied) {
        own = *vector;  // once: value by value, all other warps of the row would wait for this one
        for (int j = 0; j < Vector<T>::SIZE; ++j)
            if (!has(j)) ((T*)&own)[j] = (T)0.0f;
    } else {
        for (int j = 0; j < Vector<T>::SIZE; ++j)
            if (has(j)) ((T*)&own)[j] = from[j];
    }
    *vector = own;
}
