// What the backward kernels of layer norm that divide rows know of a part of one, and of a whole one.
#pragma once

#include "row_parts.cuh"

// Sums over the part: of (x - mean)², of g and of g * (x - mean).
struct alignas(16) Part {
    float mean, squares, g, gc;
};

// Of a whole row; g and gn are means.
struct alignas(16) Row {
    float mean, rstd, g, gn;
};

// The row whose `count` parts have `part_columns` columns each, but for the last; given to each lane of a warp.
__device__ Row row_of(const Part* parts, int count, int part_columns, int N, float eps)
{
    const float mean = joined_mean(parts, count, part_columns, N);
    float squares = 0.0f, g = 0.0f, gc = 0.0f;
    for (int p = threadIdx.x % 32; p < count; p += 32) {
        const Part part = parts[p];
        const float apart = part.mean - mean;
        squares += part.squares + columns_of(p, part_columns, N) * apart * apart;
        g += part.g;
        gc += part.gc + part.g * apart;
    }
    const float rstd = rsqrtf(warp_sum(squares) / N + eps);
    return {mean, rstd, warp_sum(g) / N, warp_sum(gc) * rstd / N};
}
