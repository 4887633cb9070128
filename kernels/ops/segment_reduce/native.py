"""Level 1: sums of segments in PyTorch operators, from which levels 2 and 3 are derived, and their signature."""

import torch

from kernels import arguments
from kernels.signature import Signature


def segment_reduce(x: torch.Tensor, offsets: torch.Tensor, mean: bool = False) -> torch.Tensor:
    """The sum or the mean of each segment's rows, added up in float32 (float64 for float64) and rounded once."""
    wide = x if x.dtype == torch.float64 else x.float()
    segment = torch.bucketize(torch.arange(x.shape[0], device=x.device), offsets, right=True) - 1
    sums = torch.zeros((offsets.shape[0] - 1, x.shape[1]), dtype=wide.dtype, device=x.device)
    sums = sums.index_add(0, segment, wide)
    if mean:
        sums = sums / (offsets[1:] - offsets[:-1]).clamp(min=1).unsqueeze(-1)
    return sums.to(x.dtype)


def segment_reduce_backward(dy, x, offsets, mean):
    """The gradient dx: each row has its segment's dy, of a mean divided by the number of the segment's rows."""
    wide = dy if dy.dtype == torch.float64 else dy.float()
    if mean:
        wide = wide / (offsets[1:] - offsets[:-1]).clamp(min=1).unsqueeze(-1)
    segment = torch.bucketize(torch.arange(x.shape[0], device=x.device), offsets, right=True) - 1
    return wide[segment].to(dy.dtype)


def validate(x, offsets, mean) -> None:
    arguments.floating("x", x, "(T, D)")
    if x.dim() != 2:
        raise ValueError(f"x: got shape {tuple(x.shape)}, expected (T, D)")
    arguments.integers("offsets", offsets)
    if offsets.dim() != 1 or not offsets.numel():
        raise ValueError(
            f"offsets: got shape {tuple(offsets.shape)}, expected (S + 1,), where each of S segments begins"
        )
    if offsets.device != x.device:
        raise ValueError(f"offsets: is on {offsets.device}, expected {x.device} like x")
    if not isinstance(mean, bool):
        raise TypeError(f"mean: got {mean!r}, expected True or False")
    if not arguments.known(offsets):
        return
    if offsets[0] != 0 or offsets[-1] != len(x):
        ends = offsets[0].item(), offsets[-1].item()
        raise ValueError(f"offsets: got {ends[0]} first and {ends[1]} last, expected 0 and {len(x)}, the rows of x")
    if (falls := offsets.diff() < 0).any():
        at = int(falls.nonzero()[0])
        raise ValueError(
            f"offsets: got {offsets[at + 1].item()} behind {offsets[at].item()}, expected no smaller number"
        )


SIGNATURE = Signature(
    "(Tensor x, Tensor offsets, bool mean=False) -> Tensor",
    validate=validate,
    shapes=lambda x, offsets, *_: (((offsets.shape[0] - 1, x.shape[1]), x.dtype),),
    gradients=("x",),
    save=("x", "offsets"),
    native_backward=segment_reduce_backward,
)
