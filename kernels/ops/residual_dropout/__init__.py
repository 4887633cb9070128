"""Dropout, and a residual that is added to what it leaves (Srivastava et al. 2014).

    y_i  = residual_i + (u_i >= p ? x_i / (1 - p) : 0)
    dx_i = (u_i >= p ? dy_i / (1 - p) : 0),    dresidual_i = dy_i

u_i, from [0, 1), is random number i of the seed for element i in the order of indices (kernels.random): word i mod 4 of the
counter i div 4. Nothing is stored for the backward, which makes the same numbers again; every level makes the same ones.
"""

from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F

from kernels import levels
from kernels.machine import Machine
from kernels.operation import Case, Cost, Operation, Peer
from kernels.ops.residual_dropout import cuda, native, triton, wrong
from kernels.ops.residual_dropout.cases import CASES, make_inputs
from kernels.ops.residual_dropout.native import SIGNATURE, dropped
from kernels.registration import join


@levels.documented
def residual_dropout(
    x: torch.Tensor, residual: torch.Tensor, p: float, seed: int, level: int | str | None = None
) -> torch.Tensor:
    """residual + dropout(x), with elements of x dropped at random; differentiable in x and residual.

    Args:
        x: shape (..., N), float32, float16 or bfloat16 (levels 1 to 3 also float64), any strides.
        residual: shape, dtype and device of x, any strides.
        p: the probability to be dropped, 0 to 1. What is kept is divided by 1 - p.
        seed: of the random numbers, 0 to 2⁶³ - 1: another for each call that is to drop others. It is a constant of a CUDA
            graph, which drops the same elements each time that it is replayed.
        level: 1 to 5 or "native", "torchscript", "compiled", "triton", "cuda"; None: Triton, native on a CPU or in float64. All
            drop the same elements, but for "torchscript" on a GPU, whose fuser makes other numbers.

    Returns:
        shape, dtype and device of x, contiguous at levels 4 and 5.
    """
    return OPERATION.defaults[levels.chosen(level, x)](x, residual, p, seed)


def reference(x, residual, p, seed):
    """The definition in float64, for the mask that level 1 makes of the seed."""
    mask = dropped(torch.ones_like(x, dtype=torch.float32), p, seed) != 0
    return residual.double() + torch.where(mask, x.double(), 0.0) / max(1 - p, 1e-30)


def same_mask(x, residual, p, seed):
    """PyTorch's operators in the dtype of x, for that mask."""
    mask = dropped(torch.ones_like(x, dtype=torch.float32), p, seed) != 0
    return residual + torch.where(mask, x / max(1 - p, 1e-30), 0.0)


def torch_dropout(x, residual, p, seed):
    """As a user writes it, with PyTorch's own random numbers."""
    return residual + F.dropout(x, p)


def fuser_differs(case: Case, machine: Machine) -> str | None:
    return "on a GPU TorchScript's fuser makes other random numbers" if machine.device == "cuda" else None


TRITON_FORWARD, TRITON_BACKWARD = join(SIGNATURE, "residual_dropout_triton", triton.FORWARD, triton.BACKWARD)
CUDA_FORWARD, CUDA_BACKWARD = join(SIGNATURE, "residual_dropout_cuda", cuda.FORWARD, cuda.BACKWARD)
NATIVE, SCRIPTED, COMPILED = levels.from_native(native.residual_dropout, native.__file__)

OPERATION = Operation(
    name="residual_dropout",
    reference=reference,
    baseline=same_mask,
    make_inputs=make_inputs,
    gradients=("x", "residual"),
    forward=(NATIVE, replace(SCRIPTED, unsupported=fuser_differs), COMPILED, *TRITON_FORWARD, *CUDA_FORWARD),
    backward=(*TRITON_BACKWARD, *CUDA_BACKWARD),
    wrong=wrong.VARIANTS,
    peers=(
        Peer("torch", lambda: torch_dropout),
        Peer("torch.compile", lambda: torch.compile(torch_dropout, dynamic=False)),
    ),
    # x and residual read once, y written once; a comparison, a product and a sum, beside the random numbers.
    cost=partial(Cost.rowwise, matrices=3, operations=3),
    # dy read once, dx written once; the residual's gradient is dy.
    backward_cost=partial(Cost.rowwise, matrices=2, operations=2),
    cases=CASES,
    validate=native.validate,
)
