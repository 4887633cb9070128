"""Level 1: embedding in PyTorch operators, from which levels 2 and 3 are derived, and its signature."""

import torch

from kernels import arguments
from kernels.signature import Signature


def embedding(index: torch.Tensor, weight: torch.Tensor, padding_idx: int | None = None) -> torch.Tensor:
    """The rows of weight that index names."""
    if weight.shape[1] == 0:  # of no columns PyTorch's own gradient writes one, beside its memory, on a GPU
        return weight[index]
    return torch.embedding(weight, index, -1 if padding_idx is None else padding_idx)


def embedding_backward(dy, index, weight, padding_idx):
    """The gradient dweight: dweight_i = sum of dy_t over the t with index_t = i, in float32; 0 where i is padding_idx."""
    wide = dy if dy.dtype == torch.float64 else dy.float()
    if padding_idx is not None:
        wide = wide.masked_fill((index == padding_idx).unsqueeze(-1), 0.0)
    sums = torch.zeros(weight.shape, dtype=wide.dtype, device=wide.device)
    return sums.index_add(0, index.reshape(-1), wide.reshape(index.numel(), weight.shape[1])).to(weight.dtype)


def validate(index, weight, padding_idx) -> None:
    arguments.integers("index", index)
    arguments.floating("weight", weight, "(V, D)")
    if weight.dim() != 2:
        raise ValueError(f"weight: got shape {tuple(weight.shape)}, expected (V, D)")
    if weight.device != index.device:
        raise ValueError(f"weight: is on {weight.device}, expected {index.device} like index")
    V = weight.shape[0]
    if padding_idx is not None and not (type(padding_idx) is int and 0 <= padding_idx < V):
        raise ValueError(f"padding_idx: got {padding_idx!r}, expected None or 0 to {V - 1}, a row of weight")
    arguments.below("index", index, V)


SIGNATURE = Signature(
    "(Tensor index, Tensor weight, int? padding_idx=None) -> Tensor",
    validate=validate,
    shapes=lambda index, weight, *_: (((*index.shape, weight.shape[1]), weight.dtype),),
    gradients=("weight",),
    save=("index", "weight"),
    native_backward=embedding_backward,
)
