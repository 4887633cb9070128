// What is known of some values, and of several such groups of values.
#pragma once

// Their sum, or the largest and its place: of nothing but -inf there is none, which begins as no place.
struct alignas(8) Known {  // aligned, so that it is read and written as one
    float value;
    int at;
};

constexpr int NOWHERE = 0x7fffffff;

template <bool MAX>
__device__ Known nothing()
{
    return {MAX ? -__int_as_float(0x7f800000) : 0.0f, NOWHERE};
}

// The largest: NaN before any number, and of equals the first.
__device__ bool before(Known one, Known other)
{
    const bool nan = isnan(one.value), other_nan = isnan(other.value);
    if (nan != other_nan) return nan;
    if (nan || one.value == other.value) return one.at < other.at;
    return one.value > other.value;
}

template <bool MAX>
__device__ Known both(Known one, Known other)
{
    if constexpr (MAX) return before(other, one) ? other : one;
    return {one.value + other.value, 0};
}

// One value more, from a place behind all that are known: two comparisons, where `both` takes a handful.
template <bool MAX>
__device__ void take(Known& known, float value, int at)
{
    if constexpr (MAX) {
        if (!(value <= known.value) && known.value == known.value) known = {value, at};
    } else {
        known.value += value;
    }
}

// The result of all values: y is the sum times scale.
template <bool MAX, typename T>
__device__ void give(Known known, T* y, long long* index, long long to, float scale)
{
    y[to] = (T)(MAX ? known.value : known.value * scale);
    if (MAX) index[to] = known.at == NOWHERE ? 0 : known.at;
}
