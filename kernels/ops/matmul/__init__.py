"""Matrix product, with an optional bias and GELU (Hendrycks and Gimpel 2016) on its result.

    h_ij = sum_k x_ik w_kj + bias_j
    y_ij = h_ij, or h_ij · Φ(h_ij) with Φ the normal distribution

for the M×K matrices of any x of shape (..., M, K), and one K×N matrix w for all of them or one for each.
"""

import torch
import torch.nn.functional as F

from kernels import levels
from kernels.operation import Operation, Peer
from kernels.ops.matmul import cuda, native, triton, wrong
from kernels.ops.matmul.cases import CASES, backward_cost, cost, few, make_inputs
from kernels.ops.matmul.in_order import in_order


@levels.documented
def matmul(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    level: int | str | None = None,
) -> torch.Tensor:
    """x @ w + bias, through an activation; differentiable in x, w and bias.

    Args:
        x: shape (..., M, K), float32, float16 or bfloat16 (levels 1 to 3 also float64), any strides.
        w: shape (K, N), or (..., K, N) with the leading dimensions of x; dtype and device of x, any strides.
        bias: shape (N,), dtype and device of x, or None.
        activation: "none" or "gelu", by the error function.

    Returns:
        shape (..., M, N), dtype and device of x. Sums are float32 (float64 for float64); levels 4 and 5 do not round float32 to
        TF32, and levels 1 to 3 do as torch.backends.cuda.matmul says.
    """
    return OPERATION.defaults[levels.chosen(level, x)](x, w, bias, activation)


def reference(x, w, bias=None, activation="none"):
    """The definition, in float64."""
    h = x.double() @ w.double()
    h = h if bias is None else h + bias.double()
    return h * 0.5 * (1 + torch.erf(h / 2**0.5)) if activation == "gelu" else h


def torch_matmul(x, w, bias=None, activation="none"):
    h = x @ w if bias is None else x @ w + bias
    return F.gelu(h) if activation == "gelu" else h


def torch_linear(x, w, bias=None, activation="none"):
    """As a user writes it, who has the transposed w: its library adds the bias, too."""
    h = F.linear(x, w.mT, bias) if w.dim() == 2 else torch_matmul(x, w, bias)
    return F.gelu(h) if activation == "gelu" else h


OPERATION = Operation(
    **levels.from_modules("matmul", native, triton, cuda),
    reference=reference,
    baseline=torch_matmul,
    second_baseline={"float32": in_order},
    make_inputs=make_inputs,
    wrong=wrong.VARIANTS,
    peers=(
        Peer("torch", lambda: torch_linear),
        Peer("torch.compile", lambda: torch.compile(torch_linear, dynamic=False, mode="max-autotune-no-cudagraphs")),
    ),
    cost=cost,
    backward_cost=backward_cost,
    cases=CASES,
    few=few,
)
