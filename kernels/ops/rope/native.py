"""Level 1: rotary position embedding in PyTorch operators, from which levels 2 and 3 are derived, and its signature."""

import torch

from kernels import arguments
from kernels.signature import Signature


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """x with each pair of features turned, computed in float32 (float64 for float64) and rounded once."""
    wide = x if x.dtype == torch.float64 else x.float()
    if interleaved:
        one, other = wide[..., ::2], wide[..., 1::2]
        return torch.stack((one * cos - other * sin, other * cos + one * sin), -1).flatten(-2).to(x.dtype)
    one, other = wide[..., : x.shape[-1] // 2], wide[..., x.shape[-1] // 2 :]
    return torch.cat((one * cos - other * sin, other * cos + one * sin), -1).to(x.dtype)


def rope(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = False) -> None:
    """Turns q and k in place."""
    q.copy_(turned(q, cos, sin, interleaved))
    k.copy_(turned(k, cos, sin, interleaved))


def rope_backward(dq, dk, cos, sin, interleaved):
    """The gradients (dq, dk) of what q and k were: those of what they became, turned back."""
    return turned(dq, cos, -sin, interleaved), turned(dk, cos, -sin, interleaved)


def validate(q, k, cos, sin, interleaved) -> None:
    arguments.floating("q", q, "(B, H, S, D)")
    if q.dim() != 4 or q.shape[-1] % 2 or q.shape[-1] == 0:
        raise ValueError(
            f"q: got shape {tuple(q.shape)}, expected (B, H, S, D) with an even D: features are turned in pairs"
        )
    B, _, S, D = q.shape
    heads = k.shape[1] if isinstance(k, torch.Tensor) and k.dim() == 4 else 1
    arguments.like("k", k, (B, heads, S, D), "q", q, why="like q but for the number of heads")
    for name, value in (("cos", cos), ("sin", sin)):
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{name}: got {type(value).__name__}, expected a torch.Tensor")
        if value.dtype not in (torch.float32, torch.float64):
            raise TypeError(f"{name}: got dtype {value.dtype}, expected torch.float32 whatever q's is")
        if value.shape != (S, D // 2):
            raise ValueError(f"{name}: got shape {tuple(value.shape)}, expected {(S, D // 2)}: positions × pairs")
        if value.device != q.device:
            raise ValueError(f"{name}: is on {value.device}, expected {q.device} like q")


def validate_for_kernel(q, k, cos, sin, interleaved) -> None:
    validate(q, k, cos, sin, interleaved)
    arguments.for_kernels("q", q)
    for name, value in (("cos", cos), ("sin", sin)):
        if value.dtype != torch.float32:
            raise TypeError(f"{name}: got dtype {value.dtype}, expected torch.float32 at levels 4 and 5")
    if cos.numel() >= 2**31:
        raise ValueError(f"cos: got {cos.numel():,} angles, expected fewer than 2³¹ at levels 4 and 5")


def validate_backward(dq, dk, cos, sin, interleaved) -> None:
    B, S, D = dq.shape[0], cos.shape[0], 2 * cos.shape[-1]
    for name, value in (("dq", dq), ("dk", dk)):
        if value.dim() != 4 or (value.shape[0], *value.shape[2:]) != (B, S, D):
            raise ValueError(f"{name}: got shape {tuple(value.shape)}, expected {(B, 'heads', S, D)}")
        arguments.for_kernels(name, value)


SIGNATURE = Signature(
    "(Tensor(a!) q, Tensor(b!) k, Tensor cos, Tensor sin, bool interleaved=False) -> ()",
    validate=validate_for_kernel,
    gradients=("q", "k"),
    save=("cos", "sin"),
    native_backward=rope_backward,
    validate_backward=validate_backward,
)
