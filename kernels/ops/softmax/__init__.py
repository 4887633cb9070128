"""Softmax over the last dimension.

    y_ij  = exp(x_ij - max_k x_ik) / sum_k exp(x_ik - max_k x_ik)
    dx_ij = y_ij · (dy_ij - sum_k dy_ik y_ik)

for the rows i of an M×N matrix, to which any x of shape (..., N) is flattened. What is subtracted cancels; without it, exp
overflows. The backward needs the output alone, which is what is saved for it.
"""

from functools import partial

import torch

from kernels import levels
from kernels.machine import Machine
from kernels.operation import Case, Cost, Operation, Peer
from kernels.ops.softmax import cuda, native, triton_backward, triton_forward, wrong
from kernels.ops.softmax.cases import CASES, make_inputs
from kernels.ops.softmax.in_order import in_order
from kernels.unsupported import needs_gpu


@levels.documented
def softmax(x: torch.Tensor, level: int | str | None = None) -> torch.Tensor:
    """Softmax over the last dimension of x; differentiable.

    A row with a NaN or +inf, or of -inf alone, gives NaN, as in PyTorch.

    Args:
        x: shape (..., N), float32, float16 or bfloat16 (levels 1 to 3 also float64), any strides.

    Returns:
        shape, dtype and device of x, contiguous at levels 4 and 5.
    """
    return OPERATION.defaults[levels.chosen(level, x)](x)


def reference(x):
    """The definition, in float64."""
    return torch.softmax(x.double(), -1)


def torch_softmax(x):
    return torch.softmax(x, -1)


def liger():
    from liger_kernel.transformers.functional import liger_softmax

    return liger_softmax


def liger_unsupported(case: Case, machine: Machine) -> str | None:
    return needs_gpu(case, machine) or ("takes at most 65,536 columns" if case.shape[-1] > 65_536 else None)


def quack():
    from quack.softmax import softmax

    return softmax


def quack_unsupported(case: Case, machine: Machine) -> str | None:
    return needs_gpu(case, machine) or (None if len(case.shape) == 2 else "takes matrices only")


OPERATION = Operation(
    **levels.from_modules("softmax", native, (triton_forward.FORWARD, triton_backward.BACKWARD), cuda),
    reference=reference,
    baseline=torch_softmax,
    second_baseline={"float32": in_order},
    make_inputs=make_inputs,
    wrong=wrong.VARIANTS,
    peers=(
        *levels.torch_peers(torch_softmax),
        Peer("liger", liger, unsupported=liger_unsupported),
        Peer("quack", quack, unsupported=quack_unsupported),
    ),
    # x read once, y written once; maximum, difference, exp, sum and quotient for each element.
    cost=partial(Cost.rowwise, matrices=2, operations=5),
    # dy and y read once, dx written once; product, sum, difference and product for each element.
    backward_cost=partial(Cost.rowwise, matrices=3, operations=4),
    cases=CASES,
)
