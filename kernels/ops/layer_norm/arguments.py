"""What layer norm accepts, said once for every level."""

import torch

from kernels import arguments
from kernels.arguments import KERNEL_DTYPES, fits


def validate(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> None:
    if accepted(x, weight, bias, eps):
        return
    arguments.floating("x", x)
    for name, tensor in (("weight", weight), ("bias", bias)):
        arguments.like(name, tensor, x.shape[-1:], "x", x, why="the last dimension of x", optional=True)
    arguments.number("eps", eps)


def accepted(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> bool:
    """True only for arguments that `validate` has nothing against; False for those it should look at closely.

    What checking costs, every call pays: the questions behind its messages are worth their microseconds only
    where a message is due.
    """
    if not isinstance(x, torch.Tensor) or type(eps) is not float or not eps >= 0:
        return False
    dtype, device, columns = x.dtype, x.device, x.shape[-1:]
    return (
        dtype in KERNEL_DTYPES
        and x.layout is torch.strided
        and len(columns) == 1
        and (weight is None or fits(weight, dtype, columns, device))
        and (bias is None or fits(bias, dtype, columns, device))
    )
