// The host side of layer_norm.cu for nvcc: what RawModule and its call do in Python, compiled.

#include "layer_norm.cu"

template <typename T>
static void launch(const void* x, const void* weight, const void* bias, void* y, long long M, long long row_stride,
                   int N, float eps, cudaStream_t stream)
{
    int threads = 32;
    while (threads <= N / 4 && threads < 512) threads *= 2;
    layer_norm_block<T><<<M, threads, threads * sizeof(float), stream>>>(
        (const T*)x, (const T*)weight, (const T*)bias, (T*)y, row_stride, N, eps);
}

// type: 'f' float, 'h' half, 'b' bfloat16.
cudaError_t launch_layer_norm(char type, const void* x, const void* weight, const void* bias, void* y, long long M,
                              long long row_stride, int N, float eps, cudaStream_t stream)
{
    auto typed = type == 'f' ? launch<float> : type == 'h' ? launch<__half> : launch<__nv_bfloat16>;
    typed(x, weight, bias, y, M, row_stride, N, eps, stream);
    return cudaGetLastError();
}
