"""How the kernels of levels 4 and 5 become PyTorch operators: with a shape rule and a gradient.

`torch.ops.kernels.<name>` then works under autograd and inside torch.compile(fullgraph=True).
"""

from collections.abc import Callable

import torch

from kernels.ops.layer_norm.arguments import validate_for_kernel
from kernels.ops.layer_norm.native import layer_norm_backward

SCHEMA = "(Tensor x, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> Tensor"


def register(name: str, forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Register `forward(x, weight, bias, eps)` as `torch.ops.kernels.<name>` and return that operator."""
    qualified = f"kernels::{name}"
    torch.library.define(qualified, SCHEMA)

    def validated(x, weight=None, bias=None, eps=1e-5):
        validate_for_kernel(x, weight, bias, eps)
        return forward(x, weight, bias, eps)

    def shape_rule(x, weight=None, bias=None, eps=1e-5):
        validate_for_kernel(x, weight, bias, eps)
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)

    torch.library.impl(qualified, ("cpu", "cuda"), validated)
    torch.library.register_fake(qualified, shape_rule)
    torch.library.register_autograd(qualified, _backward, setup_context=_save_for_backward)
    return getattr(torch.ops.kernels, name)


def _save_for_backward(ctx, inputs, output):
    x, weight, bias, ctx.eps = inputs
    ctx.save_for_backward(x, weight, bias)


def _backward(ctx, dy):
    x, weight, bias = ctx.saved_tensors
    return *layer_norm_backward(dy, x, weight, bias, ctx.eps), None
