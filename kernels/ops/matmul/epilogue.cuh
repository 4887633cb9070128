// What is made of elements of x @ w before they are stored.
#pragma once

#include "values.cuh"

// SIZE neighbours h plus the bias, through GELU if asked for; where there is a dy, its gradient before both instead. `at` is
// the place of the first in y and dy, j its column. More than one are a 16-byte vector of bias and of dy.
template <int SIZE, typename T>
__device__ void epilogue(float (&h)[SIZE], const T* bias, const T* dy, long long at, int j, int gelu)
{
    float more[SIZE];
    if (bias) {
        load_floats(bias + j, more);
        for (int n = 0; n < SIZE; ++n) h[n] += more[n];
    }
    if (gelu) {
        for (int n = 0; n < SIZE; ++n) {
            float normal = 0.5f * (1.0f + erff(h[n] * 0.70710678f));  // the part of the normal distribution below h
            h[n] = dy ? normal + h[n] * expf(-0.5f * h[n] * h[n]) * 0.39894228f : h[n] * normal;
        }
    }
    if (dy) {
        load_floats(dy + at, more);
        for (int n = 0; n < SIZE; ++n) h[n] *= more[n];
    }
}

// The same for one element, as it is stored.
template <typename T>
__device__ T epilogue(float h, const T* bias, const T* dy, long long at, int j, int gelu)
{
    float one[1] = {h};
    epilogue(one, bias, dy, at, j, gelu);
    return (T)one[0];
}
