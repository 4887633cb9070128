"""RMS norm over the last dimension (Zhang and Sennrich 2019, "Root mean square layer normalization").

    y_ij = x_ij / sqrt(1/N · sum_k x_ik² + eps) · weight_j

for the rows i of an M×N matrix, to which any x of shape (..., N) is flattened. Layer norm without a mean and without a bias.
"""

from functools import partial

import torch
import torch.nn.functional as F

from kernels import levels
from kernels.machine import Machine
from kernels.operation import Case, Cost, Operation, Peer
from kernels.ops.rms_norm import cuda, native, triton_backward, triton_forward, wrong
from kernels.ops.rms_norm.cases import CASES, make_inputs
from kernels.unsupported import needs_gpu


@levels.documented
def rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, eps: float = 1e-6, level: int | str | None = None
) -> torch.Tensor:
    """RMS norm over the last dimension of x; differentiable in x and weight.

    Args:
        x: shape (..., N), float32, float16 or bfloat16 (levels 1 to 3 also float64), any strides.
        weight: shape (N,), dtype and device of x, or None for ones.
        eps: added to the mean square; at least 0.

    Returns:
        shape, dtype and device of x, contiguous at levels 4 and 5.
    """
    return OPERATION.defaults[levels.chosen(level, x)](x, weight, eps)


def reference(x, weight=None, eps=1e-6):
    """The definition, in float64."""
    y = x.double() / (x.double().square().mean(-1, keepdim=True) + eps).sqrt()
    return y if weight is None else y * weight.double()


def torch_rms_norm(x, weight=None, eps=1e-6):
    return F.rms_norm(x, x.shape[-1:], weight, eps)


def liger():
    from liger_kernel.transformers.functional import liger_rms_norm

    # In place, its backward would overwrite dy, which the others are still to be given.
    return lambda x, weight, eps=1e-6: liger_rms_norm(x, weight, eps, in_place=False)


def quack():
    from quack.rmsnorm import rmsnorm

    return lambda x, weight, eps=1e-6: rmsnorm(x, weight, eps=eps)


def quack_unsupported(case: Case, machine: Machine) -> str | None:
    return needs_gpu(case, machine) or (None if len(case.shape) == 2 else "takes matrices only")


OPERATION = Operation(
    **levels.from_modules("rms_norm", native, (triton_forward.FORWARD, triton_backward.BACKWARD), cuda),
    reference=reference,
    baseline=torch_rms_norm,
    make_inputs=make_inputs,
    wrong=wrong.VARIANTS,
    peers=(
        *levels.torch_peers(torch_rms_norm),
        Peer("liger", liger, unsupported=needs_gpu),
        Peer("quack", quack, unsupported=quack_unsupported),
    ),
    # x and weight read once, y written once; a square, a sum and two products an element.
    cost=partial(Cost.rowwise, matrices=2, vectors=1, operations=4),
    # dy, x and weight read once, dx and dweight written once.
    backward_cost=partial(Cost.rowwise, matrices=3, vectors=2, operations=11),
    cases=CASES,
)
