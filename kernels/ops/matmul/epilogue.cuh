// What is made of an element of x @ w before it is stored.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// h plus the bias, through GELU if asked for; where there is a dy, its gradient before both instead. `at` is the element's place
// in y and dy, j its column.
template <typename T>
__device__ T epilogue(float h, const T* bias, const T* dy, long long at, int j, int gelu)
{
    if (bias) h += (float)bias[j];
    if (gelu) {
        float normal = 0.5f * (1.0f + erff(h * 0.70710678f));  // the part of the normal distribution below h
        h = dy ? normal + h * expf(-0.5f * h * h) * 0.39894228f : h * normal;
    }
    if (dy) h *= (float)dy[at];
    return (T)h;
}
