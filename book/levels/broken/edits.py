"""What fixes each kernel: what is wrong in it, and what is right there.

`row_max` is not among them: its launch is wrong.
"""

EDITS = {
    "add_bias": ("j <= N", "j < N"),
    "difference": (
        "    line[threadIdx.x] = x[i];\n",
        "    line[threadIdx.x] = x[i];\n    __syncthreads();\n",
    ),
    "sum_of_64": (
        """\
    if (t < 32) {  // one warp is left: no barriers needed
        s[t] += s[t + 32];
        s[t] += s[t + 16];
        s[t] += s[t + 8];
        s[t] += s[t + 4];
        s[t] += s[t + 2];
        s[t] += s[t + 1];
    }
    if (t == 0) sum[blockIdx.x] = s[0];
""",
        """\
    if (t < 32) {
        float mine = s[t] + s[t + 32];
        for (int apart = 16; apart > 0; apart /= 2)
            mine += __shfl_down_sync(0xffffffff, mine, apart);
        if (t == 0) sum[blockIdx.x] = mine;
    }
""",
    ),
    "transpose": (
        """\
    if (i < M && j < N) {
        tile[threadIdx.y][threadIdx.x] = x[i * N + j];
        __syncthreads();
        i = blockIdx.y * 16 + threadIdx.x;
        j = blockIdx.x * 16 + threadIdx.y;
        y[j * M + i] = tile[threadIdx.x][threadIdx.y];
    }
""",
        """\
    if (i < M && j < N)
        tile[threadIdx.y][threadIdx.x] = x[i * N + j];
    __syncthreads();
    i = blockIdx.y * 16 + threadIdx.x;
    j = blockIdx.x * 16 + threadIdx.y;
    if (i < M && j < N)
        y[j * M + i] = tile[threadIdx.x][threadIdx.y];
""",
    ),
    "scale": (
        "*(const float4*)(x + i)",
        "{x[i], x[i + 1], x[i + 2], x[i + 3]}",
    ),
    "largest": (
        "if (i < n) s[t] = __float_as_uint(fabsf(x[i]));",
        "s[t] = i < n ? __float_as_uint(fabsf(x[i])) : 0;",
    ),
    "last_block": (
        """\
    if (atomicAdd(done, 1) < gridDim.x - 1) return;
""",
        """\
    __threadfence();
    if (atomicAdd(done, 1) < gridDim.x - 1) return;
    __threadfence();
""",
    ),
    "column_sums": ("wait_prior(2)", "wait_prior(1)"),
}
