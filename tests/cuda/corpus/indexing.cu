// Embeddings, gathers, scatters and compaction.

__device__ inline float4 add_float4(const float4& a, const float4& b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// Token and position embeddings, four channels a thread.
__global__ void encoder_forward(float4* out, const int* inp, const float4* wte, const float4* wpe, int B, int T, int C) {
    int C4 = C / 4;
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    int N = B * T * C4;
    if (idx < N) {
        int bt = idx / C4;
        int b = bt / T;
        int t = bt % T;
        int c4 = idx % C4;
        int ix = inp[b * T + t];
        out[b * T * C4 + t * C4 + c4] = add_float4(wte[ix * C4 + c4], wpe[t * C4 + c4]);
    }
}

__global__ void encoder_backward(float* dwte, float* dwpe, const float* dout, const int* inp, int B, int T, int C)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < B * T * C) {
        int bt = idx / C, t = bt % T, c = idx % C;
        atomicAdd(dwte + inp[bt] * C + c, dout[idx]);
        atomicAdd(dwpe + t * C + c, dout[idx]);
    }
}

// Rows by index; an index of -1 gives zeros. A row a block.
template <typename scalar_t, typename index_t = long long>
__global__ void gather_rows(const scalar_t* __restrict__ table, const index_t* __restrict__ indices, scalar_t* out, int width)
{
    const index_t from = indices[blockIdx.x];
    for (int j = threadIdx.x; j < width; j += blockDim.x)
        out[(size_t)blockIdx.x * width + j] = from < 0 ? scalar_t(0) : table[from * width + j];
}

// The largest value scattered to each slot, by compare-and-swap on the bits.
__device__ float atomicMaxFloat(float* address, float val)
{
    int* address_as_i = (int*)address;
    int old = *address_as_i, assumed;
    do {
        assumed = old;
        old = atomicCAS(address_as_i, assumed, __float_as_int(fmaxf(val, __int_as_float(assumed))));
    } while (assumed != old);
    return __int_as_float(old);
}

__global__ void scatter_max(const float* src, const int* slot, float* dst, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) atomicMaxFloat(&dst[slot[i]], src[i]);
}

// Compaction that keeps the order: ballots within a warp, a scan over warps, one block.
__global__ void compact_ordered(const float* in, float* out, int* count, int n, float threshold)
{
    __shared__ int warp_offset[32];
    __shared__ int base;
    const int lane = threadIdx.x & 31, wid = threadIdx.x >> 5, warps = blockDim.x >> 5;
    if (threadIdx.x == 0) base = 0;
    for (int start = 0; start < n; start += blockDim.x) {
        const int i = start + threadIdx.x;
        const bool keep = i < n && in[i] > threshold;
        const unsigned ballot = __ballot_sync(0xffffffff, keep);
        if (lane == 0) warp_offset[wid] = __popc(ballot);
        __syncthreads();
        if (wid == 0) {
            int mine = lane < warps ? warp_offset[lane] : 0, sum = mine;
            for (int d = 1; d < 32; d <<= 1) {
                const int up = __shfl_up_sync(0xffffffff, sum, d);
                if (lane >= d) sum += up;
            }
            if (lane < warps) warp_offset[lane] = base + sum - mine;
            __syncwarp();
            if (lane == 31) base += sum;
        }
        __syncthreads();
        if (keep) out[warp_offset[wid] + __popc(ballot & ((1u << lane) - 1))] = in[i];
        __syncthreads();
    }
    if (threadIdx.x == 0) *count = base;
}
