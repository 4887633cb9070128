"""A projection to logits and their cross-entropy, without all logits in memory.

    logits = x · weightᵀ,    (loss, lse) = cross_entropy(logits, target)

for x of shape (..., K) and weight of shape (N, K). N is the vocabulary of a language model, and its logits are its largest
tensor. Levels 4 and 5 have a 32nd of them in memory at a time, or those of 16 rows where that is more, and make them again for
the gradient (Wijmans et al. 2024, "Cut your losses in large-vocabulary language models"). Levels 1 to 3 have all.
"""

import torch
import torch.nn.functional as F

from kernels import levels
from kernels.machine import Machine
from kernels.operation import Case, Cost, Operation, Peer
from kernels.ops import cross_entropy as logits_loss
from kernels.ops.linear_cross_entropy import chunked, native, wrong
from kernels.ops.linear_cross_entropy.cases import CASES, few, make_inputs
from kernels.ops.matmul.in_order import Product
from kernels.unsupported import needs_gpu


def linear_cross_entropy(
    x: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    level: int | str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(loss, lse) of each row of the logits x · weightᵀ; the loss is differentiable in x and weight.

    Beside inputs, results and gradients, levels 4 and 5 have a 32nd of the logits in memory, or those of 16 rows, and backward
    the float32 sum of dx.

    Args:
        x: shape (..., K), float32, float16 or bfloat16 (levels 1 to 3 also float64), any strides.
        weight: shape (N, K), one row for each class, dtype and device of x, any strides.
        target, ignore_index, label_smoothing, z_loss: as `kernels.cross_entropy` takes them.
        level: 1 to 5 or "native", "torchscript", "compiled", "triton", "cuda"; None: Triton, native on a CPU or in float64.

    Returns and raises what `kernels.cross_entropy` does.
    """
    return OPERATION.defaults[levels.chosen(level, x)](x, weight, target, ignore_index, label_smoothing, z_loss)


def reference(x, weight, target, *args, **kwargs):
    """The definition, in float64."""
    return logits_loss.reference(F.linear(x.double(), weight.double()), target, *args, **kwargs)


def torch_linear_cross_entropy(x, weight, target, *args, **kwargs):
    """PyTorch's operators: logits in the dtype of x, their loss in float32."""
    return logits_loss.torch_cross_entropy(F.linear(x, weight), target, *args, **kwargs)


def in_order(x, weight, target, *args, **kwargs):
    """The same, with the sums of all products made one addition after the other."""
    return logits_loss.torch_cross_entropy(
        Product.apply(x.reshape(-1, x.shape[-1]), weight.mT), target, *args, **kwargs
    )


def liger():
    from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy

    def fn(x, weight, target):
        loss = liger_fused_linear_cross_entropy(x, weight, target, reduction="none")
        return loss, torch.zeros_like(loss, dtype=torch.float64)

    return fn


def liger_unsupported(case: Case, machine: Machine) -> str | None:
    return needs_gpu(case, machine) or (None if len(case.shape) == 2 else "takes matrices only")


def cost(case: Case) -> Cost:
    """Bytes: x, weight and targets read once, loss and lse written once. Operations: of the product."""
    M, K, N = torch.Size(case.shape[:-1]).numel(), case.shape[-1], case.sizes["classes"]
    return Cost(bytes=(M + N) * K * getattr(torch, case.dtype).itemsize + M * (8 + 4 + 8), flops=2 * M * N * K)


def backward_cost(case: Case) -> Cost:
    """Bytes: x and weight read once, dx and dweight written once, 20 bytes a row. Operations: of the two products."""
    forward, M = cost(case), torch.Size(case.shape[:-1]).numel()
    return Cost(bytes=2 * forward.bytes - M * (8 + 4 + 8), flops=2 * forward.flops)


OPERATION = Operation(
    **levels.from_modules("linear_cross_entropy", native, chunked.TRITON, chunked.CUDA, loss="float32", lse="float64"),
    reference=reference,
    baseline=torch_linear_cross_entropy,
    second_baseline={"float32": in_order},
    make_inputs=make_inputs,
    wrong=wrong.VARIANTS,
    peers=(
        *levels.torch_peers(torch_linear_cross_entropy),
        Peer("liger", liger, liger_unsupported),
    ),
    cost=cost,
    backward_cost=backward_cost,
    cases=CASES,
    decode=logits_loss.judged,
    few=few,
)
