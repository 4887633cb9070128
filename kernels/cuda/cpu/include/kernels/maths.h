// The mathematics of CUDA that the C library lacks. The fast approximations are computed exactly: their results differ
// from a GPU's in the last bits, as CUDA's own differ between architectures.
#pragma once

namespace kernels {

// The x with erf(x) = y, or with erfc(x) = y: a start from the tail's shape, then Newton's method on log(erfc), which is
// nearly a parabola and so converges from anywhere.
inline double inverse_erfc(double y) {
    if (!(y > 0 && y < 2)) return y == 0 ? __builtin_inf() : y == 2 ? -__builtin_inf() : __builtin_nan("");
    if (y > 1) return -inverse_erfc(2 - y);
    const double wanted = log(y);
    double x = wanted < -1 ? sqrt(-wanted) * 0.9 : (1 - y) * 0.886226925452758;
    for (int i = 0; i < 60; ++i) {
        const double tail = erfc(x), step = (log(tail) - wanted) * tail / (1.1283791670955126 * exp(-x * x));
        x += step;
        if (fabs(step) <= 1e-16 * fabs(x)) break;
    }
    return x;
}
inline double inverse_erf(double y) {
    if (fabs(y) > 0.5) return y > 0 ? inverse_erfc(1 - y) : -inverse_erfc(1 + y);
    double x = y * 0.886226925452758;
    for (int i = 0; i < 20; ++i) x -= (erf(x) - y) / (1.1283791670955126 * exp(-x * x));
    return y == 0 ? y : x;
}
inline double sin_pi(double x) { return sin(M_PI * remainder(x, 2.0)); }
inline double cos_pi(double x) { return cos(M_PI * remainder(x, 2.0)); }
// exp(x²)·erfc(x), by its continued fraction where exp overflows or erfc underflows.
inline double scaled_erfc(double x) {
    if (x < 10) return exp(x * x) * erfc(x);
    double fraction = x;
    for (int i = 60; i > 0; --i) fraction = x + i / 2.0 / fraction;
    return 0.5641895835477563 / fraction;
}

}  // namespace kernels

// Each in three forms: of double, of float, and with an f for float. All compute in double.
#define KERNELS_FUNCTION(NAME, VALUE)                           \
    inline double NAME(double x) { return VALUE; }              \
    inline float NAME##f(float value) { const double x = value; return float(VALUE); } \
    inline float NAME(float x) { return NAME##f(x); }
KERNELS_FUNCTION(rsqrt, 1.0 / sqrt(x))
KERNELS_FUNCTION(rcbrt, 1.0 / cbrt(x))
KERNELS_FUNCTION(normcdf, 0.5 * erfc(-x * 0.70710678118654752440))
KERNELS_FUNCTION(normcdfinv, -1.41421356237309504880 * kernels::inverse_erfc(2 * x))
KERNELS_FUNCTION(erfinv, kernels::inverse_erf(x))
KERNELS_FUNCTION(erfcinv, kernels::inverse_erfc(x))
KERNELS_FUNCTION(erfcx, kernels::scaled_erfc(x))
KERNELS_FUNCTION(sinpi, kernels::sin_pi(x))
KERNELS_FUNCTION(cospi, kernels::cos_pi(x))
#undef KERNELS_FUNCTION
inline float exp10(float x) { return exp10f(x); }
inline void sincos(float x, float* sine, float* cosine) { sincosf(x, sine, cosine); }
inline void sincospi(double x, double* sine, double* cosine) { *sine = sinpi(x), *cosine = cospi(x); }
inline void sincospif(float x, float* sine, float* cosine) { *sine = sinpif(x), *cosine = cospif(x); }
inline void sincospi(float x, float* sine, float* cosine) { sincospif(x, sine, cosine); }

#define KERNELS_NORM(T, F)                                                                                       \
    inline T norm3d##F(T a, T b, T c) { return T(sqrt(double(a) * a + double(b) * b + double(c) * c)); }         \
    inline T norm4d##F(T a, T b, T c, T d) {                                                                     \
        return T(sqrt(double(a) * a + double(b) * b + double(c) * c + double(d) * d));                           \
    }                                                                                                            \
    inline T rnorm3d##F(T a, T b, T c) { return T(1 / sqrt(double(a) * a + double(b) * b + double(c) * c)); }    \
    inline T rnorm4d##F(T a, T b, T c, T d) {                                                                    \
        return T(1 / sqrt(double(a) * a + double(b) * b + double(c) * c + double(d) * d));                       \
    }                                                                                                            \
    inline T rhypot##F(T a, T b) { return T(1 / hypot(double(a), double(b))); }
KERNELS_NORM(double, )
KERNELS_NORM(float, f)
#undef KERNELS_NORM

inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return exp10f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __tanhf(float x) { return tanhf(x); }
inline void __sincosf(float x, float* sine, float* cosine) { sincosf(x, sine, cosine); }
inline float fdividef(float a, float b) { return a / b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

// min and max of floating point return the other operand when one is NaN, as fminf and fmaxf do. Mixed signedness goes
// to unsigned, as in CUDA.
#define KERNELS_MIN_MAX(A, B, R)                                 \
    inline R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; } \
    inline R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }
#define KERNELS_MIN_MAX_SIGNED_AND_UNSIGNED(S, U) \
    KERNELS_MIN_MAX(S, S, S)                      \
    KERNELS_MIN_MAX(U, U, U)                      \
    KERNELS_MIN_MAX(S, U, U)                      \
    KERNELS_MIN_MAX(U, S, U)
KERNELS_MIN_MAX_SIGNED_AND_UNSIGNED(int, unsigned)
KERNELS_MIN_MAX_SIGNED_AND_UNSIGNED(long, unsigned long)
KERNELS_MIN_MAX_SIGNED_AND_UNSIGNED(long long, unsigned long long)
#undef KERNELS_MIN_MAX_SIGNED_AND_UNSIGNED
#undef KERNELS_MIN_MAX
inline unsigned umin(unsigned a, unsigned b) { return min(a, b); }
inline unsigned umax(unsigned a, unsigned b) { return max(a, b); }
inline long long llmin(long long a, long long b) { return min(a, b); }
inline long long llmax(long long a, long long b) { return max(a, b); }
inline unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
inline unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(a, b); }
inline double max(float a, double b) { return fmax(a, b); }
inline double min(double a, float b) { return fmin(a, b); }
inline double max(double a, float b) { return fmax(a, b); }
