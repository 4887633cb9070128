"""Pieces of CUDA C that random kernels end with, each of them without a fault by itself."""

# What becomes of the values. Each has counters of its own: {u} is below 16.
STORES = (
    "if (i < n) y[i] = v;",
    "for (int k = i; k < n; k += gridDim.x * T) y[k] = v;",
    "atomicAdd(&sums[{u}], v);",
    "atomicAdd(&counts[16 + (i * {a}) % 64], 1u);",
    """
    // The last block adds up what all have left.
    scratch[i] = v;
    __threadfence();
    __syncthreads();
    __shared__ bool last{u};
    if (tid == 0) last{u} = atomicAdd(&counts[{u}], 1u) == gridDim.x - 1;
    __syncthreads();
    if (last{u}) {{
        __threadfence();
        float sum = 0;
        for (int k = tid; k < gridDim.x * T; k += T) sum += scratch[k];
        if (tid < n) y[tid] = sum;
    }}
    """,
    """
    // The same with one value a block.
    __shared__ bool last{u};
    if (tid == 0) {{
        sums[16 + blockIdx.x] = v;
        __threadfence();
        last{u} = atomicInc(&counts[{u}], gridDim.x - 1) == gridDim.x - 1;
    }}
    __syncthreads();
    if (last{u} && tid < gridDim.x) v += sums[16 + tid];
    """,
    """
    // Blocks hand a sum on, in order.
    if (tid == 0) {{
        volatile unsigned* ready = counts + {u};
        while (*ready != blockIdx.x) __nanosleep(10);
        __threadfence();
        sums[{u}] += v;
        __threadfence();
        *ready = blockIdx.x + 1;
    }}
    """,
    """
    // A lock.
    if (tid == 0) {{
        while (atomicCAS(&counts[{u}], 0u, 1u) != 0u) {{
        }}
        __threadfence();
        sums[{u}] += v;
        __threadfence();
        atomicExch(&counts[{u}], 0u);
    }}
    """,
    """
    // All blocks meet.
    scratch[i] = v;
    cg::this_grid().sync();
    v += scratch[(i + T) % (gridDim.x * T)];
    if (i < n) y[i] = v;
    cg::this_grid().sync();
    """,
    """
    cg::this_grid().sync();
    if (4 * i + 3 < n) reinterpret_cast<float4*>(y)[i] = make_float4(v, v, v, v);
    """,
)
