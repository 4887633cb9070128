"""Layer norm over the last dimension (Ba, Kiros and Hinton 2016, "Layer Normalization", section 3).

    mean_i     = 1/N · sum_j x_ij
    variance_i = 1/N · sum_j (x_ij - mean_i)²          (divided by N, not N - 1)
    y_ij       = (x_ij - mean_i) / sqrt(variance_i + eps) · weight_j + bias_j

for the rows i of an M×N matrix, to which any x of shape (..., N) is flattened.
"""

from functools import partial

import torch
import torch.nn.functional as F

from kernels import levels
from kernels.machine import Machine
from kernels.operation import Case, Cost, Operation, Peer
from kernels.ops.layer_norm import cuda, cuda_backward, native, triton_backward, triton_forward, wrong, wrong_backward
from kernels.ops.layer_norm.cases import CASES, few, make_inputs
from kernels.unsupported import needs_gpu


@levels.documented
def layer_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    level: int | str | None = None,
) -> torch.Tensor:
    """Layer norm over the last dimension of x; differentiable in x, weight and bias.

    Args:
        x: shape (..., N), float32, float16 or bfloat16 (levels 1 to 3 also float64), any strides.
        weight: shape (N,), dtype and device of x, or None for ones.
        bias: shape (N,), dtype and device of x, or None for zeros.
        eps: added to the variance; at least 0.

    Returns:
        shape, dtype and device of x, contiguous at levels 4 and 5.
    """
    return OPERATION.defaults[levels.chosen(level, x)](x, weight, bias, eps)


def reference(x, weight=None, bias=None, eps=1e-5):
    """The definition, in float64."""
    centred = x.double() - x.double().mean(-1, keepdim=True)
    y = centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()
    y = y if weight is None else y * weight.double()
    return y if bias is None else y + bias.double()


def torch_layer_norm(x, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def liger():
    from liger_kernel.transformers.functional import liger_layer_norm

    def layer_norm(x, weight, bias, eps=1e-5):
        return liger_layer_norm(x, weight, bias, eps)

    return layer_norm


def quack():
    from quack.rmsnorm import layernorm_bwd, layernorm_fwd  # quack-kernels, where both norms share a kernel

    class LayerNorm(torch.autograd.Function):
        """Its two functions as they are, which it does not join for autograd. It wants weight and bias in float32."""

        @staticmethod
        def forward(ctx, x, weight, bias, eps):
            keep = any(ctx.needs_input_grad)
            result = layernorm_fwd(x, weight.float(), bias.float(), eps, return_rstd=keep, return_mean=keep)
            if not keep:
                return result
            y, rstd, mean = result
            ctx.save_for_backward(x, weight, rstd, mean)
            return y

        @staticmethod
        def backward(ctx, dy):
            x, weight, rstd, mean = ctx.saved_tensors
            return *layernorm_bwd(x, weight, dy, rstd, mean), None

    return lambda x, weight, bias, eps=1e-5: LayerNorm.apply(x, weight, bias, eps)


def quack_unsupported(case: Case, machine: Machine) -> str | None:
    return needs_gpu(case, machine) or (None if len(case.shape) == 2 else "takes matrices only")


OPERATION = Operation(
    **levels.from_modules(
        "layer_norm", native, (triton_forward.FORWARD, triton_backward.BACKWARD), (cuda.FORWARD, cuda_backward.BACKWARD)
    ),
    reference=reference,
    baseline=torch_layer_norm,
    make_inputs=make_inputs,
    wrong=(*wrong.VARIANTS, *wrong_backward.VARIANTS),
    peers=(
        *levels.torch_peers(torch_layer_norm),
        Peer("liger", liger, unsupported=needs_gpu),
        Peer("quack", quack, unsupported=quack_unsupported),
    ),
    # x, weight and bias read once, y written once; 8 operations an element, as in the formula.
    cost=partial(Cost.rowwise, matrices=2, vectors=2, operations=8),
    # dy, x and weight read once, dx, dweight and dbias written once; 5 operations for the normalised row, 4 for the two sums in
    # dx, 4 for dx, 2 for dweight and 1 for dbias.
    backward_cost=partial(Cost.rowwise, matrices=3, vectors=3, operations=16),
    cases=CASES,
    few=few,
)
