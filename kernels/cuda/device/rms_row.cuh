// What the elements of a row have in common in the backward of an RMS norm.
#pragma once

// dx = scale * (g - n * gn) and n = x * rstd, from the means of x * x and of g * x over N columns.
struct RmsRow {
    float rstd, scale, gn;
    __device__ RmsRow(float mean_square, float mean_gx, int N, float eps) : rstd(rsqrtf(mean_square + eps))
    {
        gn = mean_gx * rstd;
        scale = rstd;
        // Of one column n * n is 1 - eps * rstd * rstd, and the difference of g and n * gn nothing but what was rounded.
        if (N == 1) {
            scale *= eps * rstd * rstd;
            gn *= 0.0f;  // infinities become NaN, as in the difference
        }
    }
};
