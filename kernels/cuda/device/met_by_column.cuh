// Sums of columns that the threads of a block have, each of its own vectors of a row, as one row of sums.
#pragma once

// sums of all rows of a block of (THREADS, ROWS) threads go to to[0 … N-1], or what of that lies in its VECTORS * THREADS * SIZE
// columns from `origin` on, by way of `space`, shared memory for as many floats a row: threads whose peeled rows start at different
// places have parts of each other's vectors.
// Slots lie so that a warp finds its columns in as many banks, whether 1 or SIZE apart. column(k) is the first of a thread's k-th
// vector, inside(k) whether it is in the row, has(k, j) whether its j-th value is.
template <int SIZE, int THREADS, int ROWS, int VECTORS, int PAIRS, typename Column, typename Inside, typename Has>
__device__ void met_by_column(const float2 (&sums)[VECTORS][PAIRS], float* space, float* to, int origin, int N,
                              Column column, Inside inside, Has has)
{
    auto slot = [&](int y, int column) -> float& {
        int at = y * VECTORS * THREADS * SIZE + column - origin;
        return space[at ^ at / 32 % 8];
    };
    __syncthreads();
#pragma unroll  // else sums go to local memory, to be counted through
    for (int k = 0; k < VECTORS; ++k)
        for (int j = 0; j < SIZE; ++j)
            if (inside(k) && has(k, j)) slot(threadIdx.y, column(k) + j) = j % 2 ? sums[k][j / 2].y : sums[k][j / 2].x;
    __syncthreads();
    const int end = min(origin + VECTORS * THREADS * SIZE, N);
    for (int j = max(origin, 0) + threadIdx.y * THREADS + threadIdx.x; j < end; j += THREADS * ROWS) {
        float sum = slot(0, j);
        for (int y = 1; y < ROWS; ++y) sum += slot(y, j);
        to[j] = sum;
    }
}
