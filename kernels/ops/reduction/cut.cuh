// A row of N values by 16-byte vectors, wherever it starts: `lead` values before the first whole vector, `vectors` of them, and
// from `rest` on the values that fill none.
#pragma once

#include "vectors.cuh"

template <typename T>
struct Cut {
    int lead, vectors, rest;

    __device__ Cut(const T* row, int N)
    {
        lead = min((int)((16 - (unsigned long long)row % 16) % 16 / sizeof(T)), N);
        vectors = (N - lead) / Vector<T>::SIZE;
        rest = lead + vectors * Vector<T>::SIZE;
    }
};
