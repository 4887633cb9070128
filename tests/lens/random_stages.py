"""Pieces of CUDA C that random kernels begin with and go on with, each of them without a fault by itself."""

# What brings the first values, with the guards that the count of elements asks for.
LOADS = (
    "if (i < n) v = x[i];",
    "for (int k = i; k < n; k += gridDim.x * T) v += x[k];",
    "for (int k = 0; k < {a}; ++k) if (i * {a} + k < n) v += x[i * {a} + k];",
    "v = i < n ? x[n - 1 - i] : 1.0f;",
    "if (4 * i + 3 < n) {{ const float4 four = reinterpret_cast<const float4*>(x)[i]; v = four.x + four.w; }}",
    "v = x[(i * {a} + {r}) % n];",
)

# {u}: a number of its own for each stage's names. {threads}: of a block.
STAGES = (
    # Neighbours through shared memory.
    """
    __shared__ float s{u}[{threads}];
    s{u}[tid] = v;
    __syncthreads();
    v += s{u}[(tid + {r}) % T];
    """,
    # A tree, of any number of threads.
    """
    __shared__ float s{u}[{threads}];
    s{u}[tid] = v;
    __syncthreads();
    for (int count = T; count > 1;) {{
        const int half = (count + 1) / 2;
        if (tid < count - half) s{u}[tid] += s{u}[tid + half];
        __syncthreads();
        count = half;
    }}
    v += s{u}[0];
    """,
    # A warp by shuffles, and its first lane for it.
    """
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
    __shared__ float s{u}[32];
    if (lane == 0) s{u}[warp] = v;
    __syncthreads();
    if (warp == 0) {{
        float sum = lane < T / 32 ? s{u}[lane] : 0.0f;
        for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
        if (lane == 0) s{u}[0] = sum;
    }}
    __syncthreads();
    v -= s{u}[0];
    """,
    # Within a warp, which waits for itself.
    """
    __shared__ float s{u}[{threads} / 32][32];
    for (int k = 0; k < {a}; ++k) {{
        s{u}[warp][lane] = v;
        __syncwarp();
        v += s{u}[warp][(lane + {r}) % 32];
        __syncwarp();
    }}
    """,
    # The last warps of a tree without __syncthreads.
    """
    __shared__ float s{u}[{threads} + 32];
    s{u}[tid] = v;
    __syncthreads();
    if (warp == 0)
        for (int offset = 16; offset > 0; offset /= 2) {{
            float other = lane < offset ? s{u}[lane + offset] : 0.0f;
            __syncwarp();
            if (lane < offset) s{u}[lane] += other;
            __syncwarp();
        }}
    """,
    # Parts of a warp.
    """
    __shared__ float s{u}[{threads}];
    auto tile{u} = cg::tiled_partition<{tile}>(cg::this_thread_block());
    s{u}[tid] = v;
    tile{u}.sync();
    v += s{u}[tid ^ {tile_bit}];
    """,
    # Lanes that go different ways, with a mask of their own.
    """
    __shared__ float s{u}[{threads}];
    const unsigned mask{u} = __ballot_sync(0xffffffffu, lane % 2 == 0);
    if (lane % 2 == 0) {{
        s{u}[tid] = v;
        __syncwarp(mask{u});
        v += s{u}[warp * 32 + (lane + 2) % 32];
    }}
    """,
    # Two buffers, one barrier a turn.
    """
    __shared__ float s{u}[2][{threads}];
    s{u}[0][tid] = v;
    __syncthreads();
    for (int k = 0; k < {a} + 2; ++k) {{
        s{u}[(k + 1) % 2][tid] = v + k;
        v += s{u}[k % 2][(tid + {r}) % T];
        __syncthreads();
    }}
    """,
    # One buffer, two barriers a turn.
    """
    __shared__ float s{u}[{threads}];
    for (int k = 0; k < {a}; ++k) {{
        s{u}[tid] = v;
        __syncthreads();
        v += s{u}[T - 1 - tid];
        __syncthreads();
    }}
    """,
    # Asynchronous copies of a thread's own elements.
    """
    __shared__ float s{u}[2][{threads}];
    __pipeline_memcpy_async(&s{u}[0][tid], &x[i % n], 4);
    __pipeline_commit();
    for (int k = 0; k < {a}; ++k) {{
        if (k + 1 < {a}) __pipeline_memcpy_async(&s{u}[(k + 1) % 2][tid], &x[(i + k) % n], 4);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        v += s{u}[k % 2][tid];
    }}
    __pipeline_wait_prior(0);
    """,
    # Asynchronous copies for the whole block.
    """
    __shared__ float s{u}[{threads}];
    for (int k = 0; k < {a}; ++k) {{
        __pipeline_memcpy_async(&s{u}[tid], &x[(i + k) % n], 4);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        v += s{u}[(tid + {r}) % T];
        __syncthreads();
    }}
    """,
    # A histogram.
    """
    __shared__ int s{u}[{bins}];
    for (int k = tid; k < {bins}; k += T) s{u}[k] = 0;
    __syncthreads();
    atomicAdd(&s{u}[(tid * {a}) % {bins}], 1);
    __syncthreads();
    v += s{u}[tid % {bins}];
    """,
    # Bytes and halves side by side.
    """
    __shared__ unsigned char s{u}[{threads}];
    __shared__ short t{u}[{threads} + 1];
    s{u}[tid] = tid;
    t{u}[tid + 1] = tid;
    __syncthreads();
    v += s{u}[T - 1 - tid] + t{u}[(tid + {r}) % T + 1];
    """,
    # A transpose.
    """
    __shared__ float s{u}[{threads} / 16][17];
    s{u}[tid / 16][tid % 16] = v;
    __syncthreads();
    v = s{u}[tid % ({threads} / 16)][tid / ({threads} / 16)];
    """,
    # A scan.
    """
    __shared__ float s{u}[{threads}];
    s{u}[tid] = v;
    for (int distance = 1; distance < T; distance *= 2) {{
        __syncthreads();
        const float before = tid >= distance ? s{u}[tid - distance] : 0.0f;
        __syncthreads();
        s{u}[tid] += before;
    }}
    v += 0.5f * s{u}[tid];
    """,
    # Any thread may raise the flag: they all write the same.
    """
    __shared__ int s{u};
    if (tid == 0) s{u} = 0;
    __syncthreads();
    if (v > 0.5f) s{u} = 1;
    __syncthreads();
    v += s{u};
    """,
    # Through global memory that is the block's own.
    """
    scratch[i] = v;
    __syncthreads();
    v += scratch[blockIdx.x * T + (tid + {r}) % T];
    __syncthreads();
    """,
    # A barrier that is an object.
    """
    __shared__ cuda::barrier<cuda::thread_scope_block> bar{u};
    __shared__ float s{u}[{threads}];
    if (tid == 0) init(&bar{u}, T);
    __syncthreads();
    s{u}[tid] = v;
    bar{u}.arrive_and_wait();
    v += s{u}[(tid + {r}) % T];
    bar{u}.arrive_and_wait();
    """,
    # Dynamic shared memory, by its name.
    """
    {{
        __syncthreads();
        dynamic[tid] = v;
        __syncthreads();
        v += dynamic[(tid + {r}) % T];
        __syncthreads();
    }}
    """,
    # A vote of the block, and of the warp.
    """
    v += __syncthreads_count(v > 0.5f) + __popc(__ballot_sync(0xffffffffu, v > 1.0f));
    """,
    # A queue of what passes a test, filled by an atomic.
    """
    __shared__ int used{u};
    __shared__ float s{u}[{threads}];
    if (tid == 0) used{u} = 0;
    __syncthreads();
    if (tid % {a} == 0) s{u}[atomicAdd(&used{u}, 1)] = v;
    __syncthreads();
    v += tid < used{u} ? s{u}[tid] : 0.0f;
    """,
)
