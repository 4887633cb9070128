"""Other ways to fix the detective's kernels that are right."""

_FIRST_LINES = {
    "smooth": "__global__ void smooth(float* y, const float* x, int n)\n{\n",
    "row_total": "__global__ void row_total(float* y, const float* x)\n{\n",
    "histogram": "__global__ void histogram(int* counts, const unsigned char* x, int n)\n{\n",
    "distances": "__global__ void distances(float* y, const float* x, int n)\n{\n",
    "running_sum": "__global__ void running_sum(float* y, const float* x, int n)\n{\n",
    "first_largest": "__global__ void first_largest(int* where, const float* x, int N)\n{\n",
}

_BODIES = {
    "smooth": {
        "a loop over the whole of s": """    __shared__ float s[130];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    for (int k = t; k < 130; k += 128) {
        int from = (int)(blockIdx.x * 128) - 1 + k;
        s[k] = from >= 0 && from < n ? x[from] : 0;
    }
    __syncthreads();
    if (i < n) y[i] = (s[t] + s[t + 1] + s[t + 2]) / 3;
}""",
        "shuffles": """    int i = blockIdx.x * 128 + threadIdx.x, lane = threadIdx.x % 32;
    float mine = i < n ? x[i] : 0;
    float before = __shfl_up_sync(0xffffffff, mine, 1), after = __shfl_down_sync(0xffffffff, mine, 1);
    if (lane == 0) before = i > 0 && i <= n ? x[i - 1] : 0;
    if (lane == 31) after = i + 1 < n ? x[i + 1] : 0;
    if (i < n) y[i] = (before + mine + after) / 3;
}""",
        "vector loads": """    __shared__ __align__(16) float s[136];
    int t = threadIdx.x, first = blockIdx.x * 128, i = first + t;
    if (t < 32) {
        int k = first + 4 * t;
        float4 four = make_float4(0, 0, 0, 0);
        if (k + 3 < n) four = *(const float4*)(x + k);
        else {
            if (k < n) four.x = x[k];
            if (k + 1 < n) four.y = x[k + 1];
            if (k + 2 < n) four.z = x[k + 2];
        }
        *(float4*)(s + 4 + 4 * t) = four;
    }
    if (t == 32) s[3] = first > 0 ? x[first - 1] : 0;
    if (t == 33) s[132] = first + 128 < n ? x[first + 128] : 0;
    __syncthreads();
    if (i < n) y[i] = (s[t + 3] + s[t + 4] + s[t + 5]) / 3;
}""",
    },
    "row_total": {
        "the odd one apart": """    extern __shared__ float s[];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (int left = blockDim.x; left > 1; left /= 2) {
        if (t < left / 2) s[t] += s[t + left / 2];
        if (t == 0 && left % 2) s[0] += s[left - 1];
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}""",
        "from the next power of two": """    extern __shared__ float s[];
    int t = threadIdx.x, half = 1;
    s[t] = x[blockIdx.x * blockDim.x + t];
    while (2 * half < blockDim.x) half *= 2;
    for (; half > 0; half /= 2) {
        __syncthreads();
        if (t < half && t + half < blockDim.x) s[t] += s[t + half];
    }
    if (t == 0) y[blockIdx.x] = s[0];
}""",
        "shuffles": """    __shared__ float warp_parts[32];
    int t = threadIdx.x;
    float sum = x[blockIdx.x * blockDim.x + t];
    unsigned here = __ballot_sync(__activemask(), true);
    for (int apart = 16; apart > 0; apart /= 2) {
        float other = __shfl_down_sync(here, sum, apart);
        if (here >> (t % 32 + apart) & 1 && t % 32 + apart < 32) sum += other;
    }
    if (t % 32 == 0) warp_parts[t / 32] = sum;
    __syncthreads();
    if (t > 0) return;
    for (int warp = 1; 32 * warp < blockDim.x; ++warp) sum += warp_parts[warp];
    y[blockIdx.x] = sum;
}""",
    },
    "histogram": {
        "two bins a thread": """    __shared__ int bins[256];
    int t = threadIdx.x;
    bins[t] = bins[t + 128] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 128 + t; i < n; i += gridDim.x * 128) atomicAdd(&bins[x[i]], 1);
    __syncthreads();
    counts[blockIdx.x * 256 + t] = bins[t];
    counts[blockIdx.x * 256 + 128 + t] = bins[128 + t];
}""",
        "bins of each warp": """    __shared__ int bins[4][256];
    int t = threadIdx.x;
    for (int b = t; b < 1024; b += 128) bins[b / 256][b % 256] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 128 + t; i < n; i += gridDim.x * 128) atomicAdd(&bins[t / 32][x[i]], 1);
    __syncthreads();
    for (int b = t; b < 256; b += 128) counts[blockIdx.x * 256 + b] = bins[0][b] + bins[1][b] + bins[2][b] + bins[3][b];
}""",
        "four bins at once": """    __shared__ __align__(16) int bins[256];
    int t = threadIdx.x;
    if (t < 64) ((int4*)bins)[t] = make_int4(0, 0, 0, 0);
    __syncthreads();
    for (int i = blockIdx.x * 128 + t; i < n; i += gridDim.x * 128) atomicAdd(bins + x[i], 1);
    __syncthreads();
    if (t < 64) ((int4*)(counts + blockIdx.x * 256))[t] = ((int4*)bins)[t];
}""",
    },
    "distances": {
        "the barrier before the load": """    __shared__ float tile[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    float mine = i < n ? x[i] : 0, sum = 0;
    for (int first = 0; first < n; first += 64) {
        __syncthreads();
        if (first + t < n) tile[t] = x[first + t];
        __syncthreads();
        for (int j = 0; j < min(64, n - first); ++j) sum += fabsf(mine - tile[j]);
    }
    if (i < n) y[i] = sum;
}""",
        "two tiles in turn, and one barrier": """    __shared__ float tile[2][64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t, turn = 0;
    float mine = i < n ? x[i] : 0, sum = 0;
    for (int first = 0; first < n; first += 64, turn ^= 1) {
        if (first + t < n) tile[turn][t] = x[first + t];
        __syncthreads();
        for (int j = 0; j < 64 && first + j < n; ++j) sum += fabsf(mine - tile[turn][j]);
    }
    if (i < n) y[i] = sum;
}""",
        "no barrier after the last tile": """    __shared__ float tile[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    float mine = i < n ? x[i] : 0, sum = 0;
    for (int first = 0;;) {
        if (first + t < n) tile[t] = x[first + t];
        __syncthreads();
        for (int j = 0; j < min(64, n - first); ++j) sum += fabsf(tile[j] - mine);
        first += 64;
        if (first >= n) break;
        __syncthreads();
    }
    if (i < n) y[i] = sum;
}""",
    },
    "running_sum": {
        "spare lanes leave": """    int i = blockIdx.x * 128 + threadIdx.x, lane = threadIdx.x % 32;
    if (i >= n) return;
    float sum = x[i];
    for (int apart = 1; apart < 32; apart *= 2) {
        float before = __shfl_up_sync(__activemask(), sum, apart);
        sum += lane >= apart ? before : 0;
    }
    y[i] = sum;
}""",
        "by the number of the lane": """    int i = blockIdx.x * 128 + threadIdx.x, lane = threadIdx.x & 31;
    float sum = i < n ? x[i] : 0;
    for (int apart = 1; apart < 32; apart <<= 1) {
        float before = __shfl_sync(~0u, sum, max(lane - apart, 0));
        if (lane >= apart) sum += before;
    }
    if (i < n) y[i] = sum;
}""",
    },
    "first_largest": {
        "value and place in one word": """    __shared__ unsigned long long best;
    x += (long long)blockIdx.x * N;
    if (threadIdx.x == 0) best = 0;
    __syncthreads();
    for (int n = threadIdx.x; n < N; n += 128)
        atomicMax(&best, (unsigned long long)__float_as_uint(x[n]) << 32 | (0xffffffffu - n));
    __syncthreads();
    if (threadIdx.x == 0) where[blockIdx.x] = 0xffffffffu - (unsigned)best;
}""",
        "one atomic a thread": """    __shared__ unsigned most;
    __shared__ int first;
    x += (long long)blockIdx.x * N;
    if (threadIdx.x == 0) { most = 0; first = N; }
    __syncthreads();
    float mine = 0;
    int at = N;
    for (int n = threadIdx.x; n < N; n += 128)
        if (at == N || x[n] > mine) mine = x[n], at = n;
    atomicMax(&most, __float_as_uint(mine));
    __syncthreads();
    if (__float_as_uint(mine) == most) atomicMin(&first, at);
    __syncthreads();
    if (threadIdx.x == 0) where[blockIdx.x] = first;
}""",
    },
}

ACCEPTED = {
    exercise: {title: _FIRST_LINES[exercise] + body for title, body in bodies.items()}
    for exercise, bodies in _BODIES.items()
}
