"""Levels 4 and 5: the products are PyTorch's, a part of the logits at a time; the kernels between are those of cross_entropy.

A part is the logits of all rows for a 32nd of the classes, and has the memory of the part before. Where rows are few, whose
logits are little beside the weights, parts are larger and launches fewer. Forward, the kernel makes the lse of each part, of
which the whole follows. Backward the parts are made again, by the same products and so with the same bits, and the kernel
overwrites each with its gradient: its product with x is these classes' rows of dweight, and its product with weight is added to
dx, in float32.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import torch

from kernels.arguments import as_rows, empty_contiguous
from kernels.operation import Variant
from kernels.ops.cross_entropy import cuda, triton
from kernels.ops.linear_cross_entropy.native import SIGNATURE
from kernels.unsupported import Reason, needs_compiler, needs_interpreter

PARTS, ROWS = 32, 16  # a part has as many logits as so many rows, or more


def parts(rows: torch.Tensor, weight: torch.Tensor) -> Iterator[tuple[slice, torch.Tensor]]:
    """Which classes, and their logits, in memory that is overwritten by those of the next."""
    M, N = len(rows), len(weight)
    size = -(-N // min(PARTS, -(-M // ROWS)) // 8) * 8  # whole vectors
    memory = rows.new_empty(M * min(size, N))
    for start in range(0, N, size):
        some = slice(start, min(start + size, N))
        logits = memory[: M * (some.stop - start)].view(M, -1)
        yield some, torch.mm(rows, weight[some].T, out=logits)


def forward(write: Callable[..., None], x, weight, target, ignore_index, label_smoothing, z_loss):
    if not x.numel():
        return SIGNATURE.empty_outputs(x)
    targets, any_class = target.reshape(-1), torch.zeros_like(target).view(-1)
    found, scratch = [], x.new_empty(len(targets), dtype=torch.float32)
    at_target, total = (torch.zeros_like(targets, dtype=torch.float64) for _ in range(2))
    for some, logits in parts(as_rows(x), weight):
        found.append(torch.empty_like(at_target))
        write(logits, any_class, scratch, found[-1], -1, 0.0, 0.0)
        inside = (targets >= some.start) & (targets < some.stop)
        at = (targets - some.start).clamp(0, logits.shape[1] - 1)
        at_target += torch.where(inside, logits.gather(1, at[:, None])[:, 0], 0)
        if label_smoothing > 0:
            total += logits.sum(-1, dtype=torch.float32)
    lse = torch.stack(found).logsumexp(0)
    loss = lse - (1 - label_smoothing) * at_target - label_smoothing / len(weight) * total
    if z_loss > 0:
        loss += z_loss * lse.square()
    loss, lse = (tensor.masked_fill_(targets == ignore_index, 0).view(target.shape) for tensor in (loss, lse))
    return loss.float(), lse


def backward(write: Callable[..., None], dloss, x, weight, target, lse, *parameters):
    dx, dweight = empty_contiguous(x), empty_contiguous(weight)
    if not x.numel():
        return dx, dweight.zero_()
    rows, *row_values = as_rows(x), *(tensor.reshape(-1) for tensor in (dloss, target, lse))
    total = torch.zeros_like(rows, dtype=torch.float32, memory_format=torch.contiguous_format)
    for some, logits in parts(rows, weight):
        write(row_values[0], logits, *row_values[1:], logits, parameters, some.start, len(weight))
        torch.mm(logits.T, rows, out=dweight[some])
        add_product(total, logits, weight[some])
    dx.view(rows.shape).copy_(total)
    return dx, dweight


def add_product(total: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """total, a float32, plus a · b, which is not rounded to the dtype of a and b before it is added."""
    if a.dtype == torch.float32:
        torch.addmm(total, a, b, out=total)
    elif a.is_cuda:
        torch.addmm(total, a, b, out_dtype=torch.float32, out=total)
    else:  # where PyTorch has no product of this kind
        total += a.float() @ b.float()


def rungs(
    level: int, by: ModuleType, path: str, unsupported: Reason
) -> tuple[tuple[Variant, ...], tuple[Variant, ...]]:
    """The ladders of a level, of the kernels of a module of cross_entropy."""
    source = (Path(__file__), Path(path))
    return (
        (
            Variant(
                level, "parts", partial(forward, by.by_rows), "32 parts of the logits, each once", source, unsupported
            ),
        ),
        (Variant(level, "parts-again", partial(backward, by.by_parts), "made again, for dx", source, unsupported),),
    )


TRITON = rungs(4, triton, triton.__file__, needs_interpreter)
CUDA = rungs(5, cuda, str(cuda.FILE), needs_compiler)
