"""Level 1: a histogram in PyTorch operators, from which levels 2 and 3 are derived, and its signature."""

import torch

from kernels import arguments
from kernels.signature import Signature

DTYPES = (torch.int64, torch.int32, torch.uint8)


def histogram(x: torch.Tensor, bins: int) -> torch.Tensor:
    """How often each of 0 to bins - 1 is in x: a one is added at each value's place."""
    values = x.reshape(-1).long()
    return torch.zeros(bins, dtype=torch.int64, device=x.device).index_add(0, values, torch.ones_like(values))


def validate(x, bins) -> None:
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"x: got {type(x).__name__}, expected a torch.Tensor")
    if x.dtype not in DTYPES:
        raise TypeError(f"x: got dtype {x.dtype}, expected int64, int32 or uint8; convert with x.long()")
    if type(bins) is not int or bins < 1:
        raise ValueError(f"bins: got {bins!r}, expected an int of at least 1")
    arguments.below("x", x, bins)


SIGNATURE = Signature(
    "(Tensor x, int bins) -> (Tensor counts)", validate=validate, shapes=lambda x, bins: (((bins,), torch.int64),)
)
