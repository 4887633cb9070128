"""What layer norm accepts, said once for every level."""

import numbers

import torch

KERNEL_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def validate(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> None:
    """Raise a TypeError or ValueError that names the argument, what came and what was expected."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"x: got {type(x).__name__}, expected a torch.Tensor")
    if x.dtype not in (torch.float64, *KERNEL_DTYPES):
        raise TypeError(f"x: got dtype {x.dtype}, expected float32, float16 or bfloat16; convert with x.float()")
    if x.layout != torch.strided:
        raise TypeError(f"x: got layout {x.layout}, expected torch.strided; convert with x.to_dense()")
    if x.dim() == 0:
        raise ValueError("x: got a tensor without dimensions, expected shape (..., N)")
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is None:
            continue
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name}: got {type(tensor).__name__}, expected a torch.Tensor or None")
        if tensor.shape != x.shape[-1:]:
            raise ValueError(
                f"{name}: got shape {tuple(tensor.shape)}, expected ({x.shape[-1]},), the last dimension of x"
            )
        if tensor.dtype != x.dtype:
            raise TypeError(f"{name}: got dtype {tensor.dtype}, expected {x.dtype} like x")
        if tensor.device != x.device:
            raise ValueError(f"{name}: is on {tensor.device}, expected {x.device} like x")
    if isinstance(eps, bool) or not isinstance(eps, numbers.Real) or not eps >= 0:
        raise ValueError(f"eps: got {eps!r}, expected a number of at least 0")


def validate_for_kernel(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> None:
    """As `validate`, and only the dtypes that the kernels of levels 4 and 5 are written for."""
    if accepted(x, weight, bias, eps):
        return
    validate(x, weight, bias, eps)
    if x.dtype not in KERNEL_DTYPES:
        raise TypeError(f"x: got dtype {x.dtype}, expected float32, float16 or bfloat16 at levels 4 and 5")


def accepted(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> bool:
    """True only for arguments that `validate_for_kernel` has nothing against; False for those it should look at closely.

    What checking costs, every call pays: the questions behind the messages of `validate` are worth their microseconds only
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


def fits(tensor: object, dtype: torch.dtype, shape: torch.Size, device: torch.device) -> bool:
    return (
        isinstance(tensor, torch.Tensor) and tensor.dtype is dtype and tensor.shape == shape and tensor.device == device
    )


def validate_gradient(dy: torch.Tensor, x: torch.Tensor) -> None:
    """Raise a TypeError or ValueError unless dy could be the gradient of an output made from x."""
    if dy.dtype != x.dtype:
        raise TypeError(f"dy: got dtype {dy.dtype}, expected {x.dtype} like x")
    if dy.shape != x.shape:
        raise ValueError(f"dy: got shape {tuple(dy.shape)}, expected {tuple(x.shape)} like x")
    if dy.device != x.device:
        raise ValueError(f"dy: is on {dy.device}, expected {x.device} like x")


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """x as M×N with neighbouring columns; a view where the layout allows it, else a copy."""
    rows = x.reshape(-1, x.shape[-1])
    return rows if rows.stride(1) == 1 or rows.shape[1] == 1 else rows.contiguous()


def as_columns(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """weight or bias with neighbouring elements; a copy only where they are not."""
    return tensor if tensor is None else tensor.contiguous()
