"""A product whose sums are made in one order: what rounding costs a thread that adds a whole sum by itself."""

from typing import Any

import torch
import torch.nn.functional as F


def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """x @ w, for any K, with the K products of a sum added one after the other, each addition rounded to the dtype."""
    y = x.new_zeros((*x.shape[:-1], w.shape[-1]))
    for column, row in zip(x.unbind(-1), w.unbind(-2), strict=True):
        y = torch.addcmul(y, column.unsqueeze(-1), row.unsqueeze(-2))
    return y


class Product(torch.autograd.Function):
    """The same, with gradients that are added up so too."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        return product(x, w)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        (dy,), (x, w) = gradients, ctx.saved_tensors
        dx = product(dy, w.mT)
        if w.dim() == 2:  # one w for all rows of all matrices
            x, dy = x.flatten(0, -2), dy.flatten(0, -2)
        return dx, product(x.mT, dy)


def in_order(x, w, bias=None, activation="none"):
    """As kernels.matmul is called."""
    h = Product.apply(x, w)
    h = h if bias is None else h + bias
    return F.gelu(h) if activation == "gelu" else h
