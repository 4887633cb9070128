"""Cross-entropy of logits with integer targets, row by row.

    lse_i  = log(sum_k exp(x_ik))
    loss_i = lse_i - (1 - s) · x_it - s/N · sum_k x_ik + z · lse_i²,    t = target_i
    dx_ij  = dloss_i · (exp(x_ij - lse_i) · (1 + 2 z lse_i) - (1 - s) · [j = t] - s/N)

for the rows i of an M×N matrix of logits, with label smoothing s (Szegedy et al. 2016, "Rethinking the Inception
architecture") and z-loss z, which keeps lse near 0 (Chowdhery et al. 2022, "PaLM"). A row whose target is ignored does
not count: its loss, its lse and its gradient are 0. lse is float64: from a float32 the gradient of logits about 300 would have
only five right digits.
"""

from functools import partial

import torch
import torch.nn.functional as F

from kernels import levels
from kernels.operation import Cost, Operation, Peer
from kernels.ops.cross_entropy import cuda, native, triton, wrong
from kernels.ops.cross_entropy.cases import CASES, make_inputs
from kernels.unsupported import needs_gpu


@levels.documented
def cross_entropy(
    x: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    level: int | str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(loss, lse) of each row; the loss is differentiable in x. `kernels.modules.CrossEntropyLoss` is the mean of losses.

    A row with a NaN or +inf, or of -inf alone, gives NaN, as in PyTorch.

    Args:
        x: the logits, shape (..., N), float32, float16 or bfloat16 (levels 1 to 3 also float64), any strides.
        target: int64, shape (...), on the device of x: 0 to N - 1, or ignore_index.
        ignore_index: the target of rows without a loss.
        label_smoothing: the part, 0 to 1, of the target that is spread evenly over all N classes.
        z_loss: what lse² counts for; at least 0.

    Returns:
        loss, float32 (float64 for float64), and lse, float64, both of target's shape, 0 for ignored rows.

    Raises:
        TypeError, ValueError: naming the argument, before anything is launched. A target out of its range is one on a CPU; on
            a GPU, where a look at its values would wait for the GPU, an assertion of the kernel that names target.
    """
    return OPERATION.defaults[levels.chosen(level, x)](x, target, ignore_index, label_smoothing, z_loss)


def reference(x, target, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    """The definition, in float64; but a logit of +inf gives NaN, not an lse of +inf, as it does in softmax."""
    ignored = target == ignore_index
    x = x.double().masked_fill(ignored.unsqueeze(-1), 0)
    lse = x.logsumexp(-1)
    lse = lse.masked_fill(lse == torch.inf, torch.nan)
    columns, rows = x.reshape(-1, x.shape[-1]), target.reshape(-1)
    loss = F.cross_entropy(
        columns, rows, reduction="none", ignore_index=ignore_index, label_smoothing=label_smoothing
    ).view_as(target)
    if z_loss:
        loss = loss + (z_loss * lse.square()).masked_fill(ignored, 0)
    return loss, lse.detach().masked_fill(ignored, 0)


def torch_cross_entropy(x, target, ignore_index=-100, label_smoothing=0.0, z_loss=0.0):
    """PyTorch's own, of float32 logits."""
    rows = x.reshape(-1, x.shape[-1]).float(), target.reshape(-1)
    loss = F.cross_entropy(*rows, reduction="none", ignore_index=ignore_index, label_smoothing=label_smoothing)
    ignored, lse = rows[1] == ignore_index, rows[0].logsumexp(-1)
    if z_loss:
        loss = loss + (z_loss * lse.square()).masked_fill(ignored, 0)
    return loss.view_as(target), lse.detach().double().masked_fill(ignored, 0).view_as(target)


def torch_loss(x, target):
    """As a user calls it, and of what it gives the lse."""
    loss = F.cross_entropy(x, target, reduction="none").float()
    return loss, (loss.detach() + x.detach().gather(1, target[:, None])[:, 0]).double()


def liger():
    from liger_kernel.transformers.functional import liger_cross_entropy

    def fn(x, target):
        loss = liger_cross_entropy(x, target, reduction="none").float()
        return loss, (loss + x.gather(1, target[:, None])[:, 0]).double()

    return fn


def quack():
    from quack.cross_entropy import cross_entropy

    def fn(x, target):
        loss = cross_entropy(x, target, reduction="none")
        return loss, (loss.detach() + x.detach().gather(1, target[:, None])[:, 0]).double()

    return fn


def judged(outputs, inputs):
    """lse as the float32 that a caller wants; that it has more digits shows in dx."""
    return outputs | {"lse": outputs["lse"].float()} if "lse" in outputs else outputs  # gradients come without


OPERATION = Operation(
    **levels.from_modules("cross_entropy", native, triton, cuda, loss="float32", lse="float64"),
    reference=reference,
    baseline=torch_cross_entropy,
    make_inputs=make_inputs,
    wrong=wrong.VARIANTS,
    peers=(
        *levels.torch_peers(torch_loss),
        Peer("liger", liger, needs_gpu, no_backward="it overwrites its input with the gradient"),
        Peer("quack", quack, needs_gpu),
    ),
    # x and targets read once, loss and lse written once; maximum, difference, exp and sum.
    cost=partial(Cost.rowwise, matrices=1, row_bytes=8 + 4 + 8, operations=4),
    # x, targets, lse and dloss read once, dx written once; difference, exp, product and sum.
    backward_cost=partial(Cost.rowwise, matrices=2, row_bytes=8 + 8 + 4, operations=4),
    cases=CASES,
    decode=judged,
)
