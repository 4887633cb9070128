// Convolutions and pooling.

#define MAX_MASK_WIDTH 9
__constant__ float M[MAX_MASK_WIDTH] = {0.02f, 0.06f, 0.12f, 0.18f, 0.24f, 0.18f, 0.12f, 0.06f, 0.02f};

// The neighbours within the tile come from shared memory, the others from global memory.
__global__ void convolution_1D_tiled(const float *N, float *P, int Mask_Width, int Width)
{
    __shared__ float N_ds[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    N_ds[threadIdx.x] = i < Width ? N[i] : 0.0f;
    __syncthreads();
    int this_start = blockIdx.x * blockDim.x, next_start = this_start + blockDim.x;
    int N_start = i - Mask_Width / 2;
    float Pvalue = 0;
    for (int j = 0; j < Mask_Width; j++) {
        int N_index = N_start + j;
        if (N_index >= 0 && N_index < Width) {
            if (N_index >= this_start && N_index < next_start)
                Pvalue += N_ds[threadIdx.x + j - Mask_Width / 2] * M[j];
            else
                Pvalue += N[N_index] * M[j];
        }
    }
    if (i < Width) P[i] = Pvalue;
}

struct Conv2dShape {
    int batch, in_channels, height, width, out_channels, kernel, stride, pad, out_height, out_width;
};

// NCHW, direct, one output a thread.
__global__ void conv2d_direct(const float* input, const float* weight, const float* bias, float* output, Conv2dShape s)
{
    const int total = s.batch * s.out_channels * s.out_height * s.out_width;
    for (int index = blockIdx.x * blockDim.x + threadIdx.x; index < total; index += blockDim.x * gridDim.x) {
        const int ow = index % s.out_width, oh = index / s.out_width % s.out_height;
        const int oc = index / (s.out_width * s.out_height) % s.out_channels;
        const int n = index / (s.out_width * s.out_height * s.out_channels);
        float value = bias ? bias[oc] : 0.0f;
        for (int ic = 0; ic < s.in_channels; ++ic)
            for (int kh = 0; kh < s.kernel; ++kh) {
                const int ih = oh * s.stride - s.pad + kh;
                if (ih < 0 || ih >= s.height) continue;
                for (int kw = 0; kw < s.kernel; ++kw) {
                    const int iw = ow * s.stride - s.pad + kw;
                    if (iw < 0 || iw >= s.width) continue;
                    value += input[((n * s.in_channels + ic) * s.height + ih) * s.width + iw]
                           * weight[((oc * s.in_channels + ic) * s.kernel + kh) * s.kernel + kw];
                }
            }
        output[index] = value;
    }
}

// A depth-wise filter, each channel's tile with its halo in dynamic shared memory, the channel on blockIdx.z.
template <int K>
__global__ void depthwise_tiled(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int H, int W)
{
    extern __shared__ float smem[];
    const int tile_w = blockDim.x + K - 1, tile_h = blockDim.y + K - 1;
    float* tile = smem;
    float* filter = smem + tile_w * tile_h;
    const int tid = threadIdx.y * blockDim.x + threadIdx.x, nthreads = blockDim.x * blockDim.y;
    const int x0 = blockIdx.x * blockDim.x - K / 2, y0 = blockIdx.y * blockDim.y - K / 2;
    x += blockIdx.z * H * W;
    for (int i = tid; i < tile_w * tile_h; i += nthreads) {
        const int gx = x0 + i % tile_w, gy = y0 + i / tile_w;
        tile[i] = gx >= 0 && gx < W && gy >= 0 && gy < H ? x[gy * W + gx] : 0.0f;
    }
    if (tid < K * K) filter[tid] = w[blockIdx.z * K * K + tid];
    __syncthreads();
    const int ox = blockIdx.x * blockDim.x + threadIdx.x, oy = blockIdx.y * blockDim.y + threadIdx.y;
    if (ox >= W || oy >= H) return;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < K; ++i)
#pragma unroll
        for (int j = 0; j < K; ++j) sum += tile[(threadIdx.y + i) * tile_w + threadIdx.x + j] * filter[i * K + j];
    y[(blockIdx.z * H + oy) * W + ox] = sum;
}

__global__ void im2col(const float* im, float* col, int channels, int height, int width, int ksize, int pad)
{
    const int n = channels * height * width;  // stride 1 and a padding that keeps the size
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= n) return;
    const int w_out = index % width, h_out = (index / width) % height, c = index / width / height;
    float* out = col + (size_t)c * ksize * ksize * height * width + h_out * width + w_out;
    for (int i = 0; i < ksize; ++i)
        for (int j = 0; j < ksize; ++j, out += height * width) {
            const int h = h_out - pad + i, w = w_out - pad + j;
            *out = (h >= 0 && w >= 0 && h < height && w < width) ? im[(c * height + h) * width + w] : 0;
        }
}

// 2 x 2 maxima, and where they came from.
__global__ void max_pool2d(const float* x, float* y, int* argmax, int H, int W)
{
    const int ow = threadIdx.x, oh = blockIdx.x, c = blockIdx.y, OW = W / 2, OH = H / 2;
    if (ow >= OW) return;
    float best = __int_as_float(0xff800000);
    int where = -1;
    for (int i = 0; i < 4; ++i) {
        const int at = (c * H + 2 * oh + (i >> 1)) * W + 2 * ow + (i & 1);
        if (x[at] > best) { best = x[at]; where = at; }
    }
    y[(c * OH + oh) * OW + ow] = best;
    argmax[(c * OH + oh) * OW + ow] = where;
}
