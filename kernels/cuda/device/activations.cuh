// Activations of MLPs and their slopes, as kernels/activations.py has them, for results of type T: float32 shows the error of
// fast functions, the half types do not.
#pragma once

enum { SILU, GELU, GELU_TANH };  // in the order of kernels.activations.NAMES

struct Activated {
    float value, slope;  // what is not used of it is not computed
};

// 1 / (1 + exp(-x)), and what it lacks to 1, which a difference would round. A plain division has a branch for tiny divisors,
// and no compiler moves a load across it: another tensor would be asked for only afterwards.
struct Sigmoid {
    float value, rest;
};

template <typename T>
__device__ Sigmoid sigmoid(float x)
{
    const float lowered = fminf(-x, 80.0f);  // so that e is finite
    const float e = sizeof(T) == 4 ? expf(lowered) : __expf(lowered);
    const float divisor = 1.0f + e;
    float value = __fdividef(1.0f, divisor);
    if (sizeof(T) == 4) value = fmaf(fmaf(-divisor, value, 1.0f), value, value);  // a step of Newton's method
    return {value, e * value};
}

// Phi of the normal distribution, for half types to 1e-7 (Abramowitz and Stegun 1964, "Handbook of mathematical functions",
// 7.1.26): its series takes the same exponential as the slope. bell = exp(-x² / 2).
template <typename T>
__device__ float normal(float x, float bell)
{
    if (sizeof(T) == 4) return 0.5f * (1.0f + erff(x * 0.70710678f));
    float t = __fdividef(1.0f, 1.0f + 0.23164190f * fabsf(x));
    float series = t * (0.127414796f + t * (-0.142248368f + t * (0.710706871f + t * (-0.726576014f + t * 0.530702715f))));
    float tail = series * bell;
    return x < 0.0f ? tail : 1.0f - tail;
}

template <typename T, int ACTIVATION>
__device__ Activated activated(float x)
{
    if (ACTIVATION == SILU) {
        Sigmoid s = sigmoid<T>(x);
        return {x * s.value, s.value * (1.0f + x * s.rest)};
    }
    if (ACTIVATION == GELU) {
        float bell = sizeof(T) == 4 ? expf(-0.5f * x * x) : __expf(-0.5f * x * x);
        float phi = normal<T>(x, bell);
        return {x * phi, phi + x * bell * 0.39894228f};
    }
    constexpr float TWICE = 1.59576912f, CUBE = 0.044715f;  // 2 sqrt(2 / pi)
    Sigmoid s = sigmoid<T>(TWICE * (x + CUBE * x * x * x));
    return {x * s.value, s.value + x * s.value * s.rest * TWICE * (1.0f + 3.0f * CUBE * x * x)};
}
