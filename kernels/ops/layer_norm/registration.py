"""What PyTorch must know of layer norm to make operators of its kernels."""

import torch

from kernels.arguments import empty_contiguous
from kernels.ops.layer_norm import native
from kernels.ops.layer_norm.arguments import validate_for_kernel, validate_gradient
from kernels.signature import Signature

Gradients = tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]  # of x, weight and bias


def validate_backward(dy, x, weight, bias, eps) -> None:
    validate_for_kernel(x, weight, bias, eps)
    validate_gradient(dy, x)


SIGNATURE = Signature(
    "(Tensor x, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> Tensor y",
    validate=validate_for_kernel,
    shape_rule=lambda x, weight, bias, eps: empty_contiguous(x),
    gradients=("x", "weight", "bias"),
    save=("x", "weight", "bias"),
    native_backward=native.layer_norm_backward,
    validate_backward=validate_backward,
)
