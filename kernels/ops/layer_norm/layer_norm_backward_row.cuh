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

// The row whose `count` parts have `part_columns` columns each, but for the last; given to each lane of a warp. All is counted
// from the mean of the first part, so that lanes meet once; the mean of the row takes its place at last.
__device__ Row row_of(const Part* parts, int count, int part_columns, int N, float eps)
{
    const float first = parts[0].mean;
    float sum = 0.0f, squares = 0.0f, g = 0.0f, gc = 0.0f;
    for (int p = threadIdx.x % 32; p < count; p += 32) {
        const Part part = parts[p];
        const float apart = part.mean - first, columns = columns_of(p, part_columns, N);
        sum += columns * apart;
        squares += part.squares + columns * apart * apart;
        g += part.g;
        gc += part.gc + part.g * apart;
    }
    sum = warp_sum(sum);
    squares = warp_sum(squares);
    g = warp_sum(g);
    gc = warp_sum(gc);
    const float share = __fdividef(1.0f, N), apart = sum * share, rstd = rstd_of((squares - sum * apart) * share, eps);
    return {first + apart, rstd, g * share, (gc - g * apart) * rstd * share};
}
