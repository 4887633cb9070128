"""Deliberately wrong projections with cross-entropy, which the check must reject. "gradient-…" have right outputs."""

from functools import partial
from unittest import mock

import torch

from kernels.ops.cross_entropy import cuda, triton
from kernels.ops.cross_entropy.native import cross_entropy
from kernels.ops.linear_cross_entropy import chunked
from kernels.ops.linear_cross_entropy.native import SIGNATURE, linear_cross_entropy, linear_cross_entropy_backward
from kernels.wrong import variant


def last_part_left(write, x, weight, *others):
    return chunked.forward(write, x, weight[: len(weight) - len(weight) % 8], *others)


def largest_alone(write, *args):
    with mock.patch.object(torch.Tensor, "logsumexp", torch.Tensor.amax):
        return chunked.forward(write, *args)


def narrow_loss(x, weight, target, *parameters):
    loss, lse = linear_cross_entropy(x, weight, target, *parameters)
    return loss.bfloat16().float(), lse


def unaware_of_z(x, weight, target, ignore_index, label_smoothing, z_loss):
    return linear_cross_entropy(x, weight, target, ignore_index, label_smoothing, 0.0)


def averaged(x, weight, target, *parameters):
    loss, lse = linear_cross_entropy(x, weight, target, *parameters)
    return loss / max(target.numel(), 1), lse


def next_rows_targets(x, weight, target, *parameters):
    return cross_entropy(x @ weight.T, target.roll(1, 0) if target.dim() else target, *parameters)


def unweighted(dloss, *others):
    return linear_cross_entropy_backward(dloss * 0 + 1, *others)


def counted_from_0(write, *args):
    return chunked.backward(lambda *given: write(*given[:-2], 0, given[-1]), *args)


def raw_logits(write, *args):
    return chunked.backward(lambda *given: write(*given[:4], given[1].clone(), *given[5:]), *args)


wrong = partial(variant, SIGNATURE, __file__, forward=linear_cross_entropy)
VARIANTS = (
    wrong(1, "narrow-loss", "rounds losses to bfloat16", forward=narrow_loss),
    wrong(1, "without-z", "forgets the z-loss", forward=unaware_of_z),
    wrong(1, "averaged", "divides each loss by the number of rows", forward=averaged),
    wrong(1, "next-row", "gives each row the target of the one before", forward=next_rows_targets),
    wrong(5, "last-part-left", "leaves out the classes that do not fill a vector",
          forward=partial(last_part_left, cuda.by_rows)),
    wrong(4, "largest-alone", "takes the largest LSE of the parts for that of all",
          forward=partial(largest_alone, triton.by_rows)),
    wrong(1, "gradient-unweighted", "ignores the gradients of the losses", backward=unweighted),
    wrong(4, "gradient-from-0", "counts the classes of each part from 0",
          backward=partial(counted_from_0, triton.by_parts)),
    wrong(5, "gradient-of-logits", "multiplies by the logits, not by their gradient",
          backward=partial(raw_logits, cuda.by_parts)),
)  # fmt: skip
