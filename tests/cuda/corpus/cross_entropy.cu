// Cross-entropy of logits over a vocabulary.

__global__ void crossentropy_forward(float* losses, const float* probs, const int* targets, int B, int T, int V) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < B * T) {
        int b = i / T;
        int t = i % T;
        const float* probs_bt = probs + b * T * V + t * V;
        int ix = targets[b * T + t];
        losses[b * T + t] = -logf(probs_bt[ix]);
    }
}

struct SoftmaxParams { float Scale; float Offset; };

template <typename F>
__device__ float blockReduce(float val, float out_of_bounds, F reduction)
{
    __shared__ float shared_val[32];
    const int lane_id = threadIdx.x % 32, warp_id = threadIdx.x / 32, num_warps = blockDim.x / 32;
    for (int o = 16; o > 0; o >>= 1) val = reduction(val, __shfl_xor_sync(0xFFFFFFFF, val, o));
    __syncthreads();
    if (lane_id == 0) shared_val[warp_id] = val;
    __syncthreads();
    val = lane_id < num_warps ? shared_val[lane_id] : out_of_bounds;
    for (int o = 16; o > 0; o >>= 1) val = reduction(val, __shfl_xor_sync(0xFFFFFFFF, val, o));
    return val;
}

__device__ SoftmaxParams prepare_softmax(const float* x, int V)
{
    const float inf = __int_as_float(0x7f800000);
    float thread_max = -inf, thread_sum = 0.0f;
    for (int i = threadIdx.x; i < V; i += blockDim.x) {
        const float v = x[i], old = thread_max;
        thread_max = fmaxf(thread_max, v);
        thread_sum = thread_sum * (old == -inf ? 0.0f : expf(old - thread_max)) + expf(v - thread_max);
    }
    const float block_max = blockReduce(thread_max, -inf, [](float a, float b) { return fmaxf(a, b); });
    thread_sum *= thread_max == -inf ? 0.0f : expf(thread_max - block_max);
    const float block_sum = blockReduce(thread_sum, 0.0f, [](float a, float b) { return a + b; });
    return SoftmaxParams{1.f / block_sum, block_max};
}

// Loss, and the gradient written over the logits; rows whose target is ignore_index count nothing.
__global__ void __launch_bounds__(1024, 1)
fused_classifier(float* logits, float* losses, const float dloss, const long long* targets, int V, int P, int ignore_index)
{
    const long long idx = gridDim.x - (blockIdx.x + 1);  // the last rows first: they are in the cache
    const int ix = targets[idx];
    float* row = logits + idx * P;
    if (ix == ignore_index) {
        for (int i = threadIdx.x; i < V; i += blockDim.x) __stcs(row + i, 0.0f);
        if (threadIdx.x == 0) losses[idx] = 0.0f;
        return;
    }
    const SoftmaxParams sp = prepare_softmax(row, V);
    if (threadIdx.x == 0) {
        const float prob = expf(row[ix] - sp.Offset) * sp.Scale;
        losses[idx] = -logf(prob);
    }
    __syncthreads();  // the logit of the target has been read
    for (int i = threadIdx.x; i < V; i += blockDim.x) {
        const float prob = expf(__ldcs(row + i) - sp.Offset) * sp.Scale;
        row[i] = (prob - (i == ix ? 1.0f : 0.0f)) * dloss;
    }
}

// Label smoothing, from log-sum-exp, a warp a row, the mean by one atomic a row.
__global__ void smoothed_loss(const float* logits, const int* targets, float* mean_loss, int rows, int classes, float smoothing)
{
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float* x = logits + row * classes;
    float top = -1e30f, total = 0.f, plain = 0.f;
    for (int c = lane; c < classes; c += 32) top = max(top, x[c]), plain += x[c];
    for (int o = 1; o < 32; o <<= 1) {
        top = max(top, __shfl_xor_sync(~0u, top, o));
        plain += __shfl_xor_sync(~0u, plain, o);
    }
    for (int c = lane; c < classes; c += 32) total += __expf(x[c] - top);
    for (int o = 1; o < 32; o <<= 1) total += __shfl_xor_sync(~0u, total, o);
    if (lane == 0) {
        const float lse = top + __logf(total);
        const float loss = lse - (1.f - smoothing) * x[targets[row]] - smoothing * plain / classes;
        atomicAdd(mean_loss, loss / rows);
    }
}
