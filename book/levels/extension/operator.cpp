// torch.ops.extension.layer_norm: checks, allocation and launch in C++.

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

cudaError_t launch_layer_norm(char type, const void* x, const void* weight, const void* bias, void* y, long long M,
                              long long row_stride, int N, float eps, cudaStream_t stream);

static const void* pointer(const char* name, const std::optional<at::Tensor>& vector, const at::Tensor& x)
{
    if (!vector) return nullptr;
    TORCH_CHECK(vector->dim() == 1 && vector->size(0) == x.size(-1) && vector->is_contiguous(), name, ": got shape ",
                vector->sizes(), ", expected a contiguous vector of ", x.size(-1));
    TORCH_CHECK(vector->scalar_type() == x.scalar_type() && vector->device() == x.device(), name, ": is ",
                vector->scalar_type(), " on ", vector->device(), ", expected ", x.scalar_type(), " on ", x.device());
    return vector->data_ptr();
}

static at::Tensor layer_norm(const at::Tensor& x, const std::optional<at::Tensor>& weight,
                             const std::optional<at::Tensor>& bias, double eps)
{
    TORCH_CHECK(x.dim() > 0, "x: got a tensor without dimensions, expected shape (..., N)");
    auto dtype = x.scalar_type();
    char type = dtype == at::kFloat ? 'f' : dtype == at::kHalf ? 'h' : dtype == at::kBFloat16 ? 'b' : '?';
    TORCH_CHECK(type != '?', "x: got dtype ", dtype, ", expected float32, float16 or bfloat16");
    TORCH_CHECK(eps >= 0, "eps: got ", eps, ", expected a number of at least 0");
    const void *w = pointer("weight", weight, x), *b = pointer("bias", bias, x);
    at::Tensor rows = x.contiguous(), y = at::empty_like(rows);
    if (!x.numel()) return y;

    c10::cuda::CUDAGuard guard(x.device());
    int N = x.size(-1);
    auto stream = c10::cuda::getCurrentCUDAStream();
    cudaError_t error = launch_layer_norm(type, rows.data_ptr(), w, b, y.data_ptr(), x.numel() / N, N, N, eps, stream);
    TORCH_CHECK(error == cudaSuccess, "layer_norm: ", cudaGetErrorString(error));
    return y;
}

TORCH_LIBRARY(extension, library)
{
    library.def(
        "layer_norm(Tensor x, Tensor? weight=None, Tensor? bias=None, "
        "float eps=1e-5) -> Tensor");
}

TORCH_LIBRARY_IMPL(extension, CUDA, library)
{
    library.impl("layer_norm", layer_norm);
}
