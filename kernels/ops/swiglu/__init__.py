"""The gate of an MLP: one half of its features, activated, scales the other (Shazeer 2020, "GLU Variants Improve Transformer").

    y_ij = activation(gate_ij) · up_ij

SwiGLU with SiLU, GeGLU with GELU; kernels/activations.py has both. gate and up are often the two halves of one product, so
that their rows lie further apart than their width.
"""

from functools import partial

import torch

from kernels import levels, unsupported
from kernels.activations import GELU, activated
from kernels.arguments import choice
from kernels.machine import Machine
from kernels.operation import Case, Cost, Operation, Peer
from kernels.ops.swiglu import cuda, native, triton, wrong
from kernels.ops.swiglu.cases import CASES, make_inputs
from kernels.unsupported import needs_gpu


@levels.documented
def swiglu(
    gate: torch.Tensor, up: torch.Tensor, activation: str = "silu", level: int | str | None = None
) -> torch.Tensor:
    """activation(gate) · up, element by element; differentiable in both.

    Args:
        gate: shape (..., N), float32, float16 or bfloat16 (levels 1 to 3 also float64), any strides.
        up: shape, dtype and device of gate, any strides.
        activation: "silu"; "gelu" or "gelu_tanh" for `geglu`.

    Returns:
        shape, dtype and device of gate, contiguous at levels 4 and 5.
    """
    return OPERATION.defaults[levels.chosen(level, gate)](gate, up, activation)


def geglu(
    gate: torch.Tensor, up: torch.Tensor, approximate: str = "none", level: int | str | None = None
) -> torch.Tensor:
    """gelu(gate) · up: `swiglu` with GELU, exact or, with approximate="tanh", as `torch.nn.functional.gelu` approximates it."""
    choice("approximate", approximate, tuple(GELU))
    return swiglu(gate, up, GELU[approximate], level)


def reference(gate, up, activation="silu"):
    """The definition, in float64."""
    return activated(gate.double(), activation) * up.double()


def torch_swiglu(gate, up, activation="silu"):
    return activated(gate, activation) * up


def liger():
    from liger_kernel.transformers.functional import liger_geglu, liger_swiglu

    def swiglu(gate, up, activation="silu"):
        return (liger_swiglu if activation == "silu" else liger_geglu)(gate, up)

    return swiglu


def liger_unsupported(case: Case, machine: Machine) -> str | None:
    exact = case.params.get("activation") == "gelu"
    return needs_gpu(case, machine) or ("has GELU in its approximation by tanh only" if exact else None)


def gelu_of_infinity(case: Case, machine: Machine) -> str | None:
    return unsupported.gelu_of_infinity(case, machine) if "gelu" in str(case.params.get("activation")) else None


OPERATION = Operation(
    **levels.excluding(gelu_of_infinity, levels.from_modules("swiglu", native, triton, cuda)),
    reference=reference,
    baseline=torch_swiglu,
    make_inputs=make_inputs,
    wrong=wrong.VARIANTS,
    peers=(
        *levels.torch_peers(torch_swiglu),
        Peer("liger", liger, unsupported=liger_unsupported),
    ),
    # gate and up read once, y written once; an exponential, a sum, a quotient and two products an element.
    cost=partial(Cost.rowwise, matrices=3, operations=5),
    # dy, gate and up read once, dgate and dup written once.
    backward_cost=partial(Cost.rowwise, matrices=5, operations=12),
    cases=CASES,
)
