"""What the kernels of levels 4 and 5 have in common: a product of batches of matrices, and gradients made of products.

A rung is `multiply(x, w, y, bias, dy, activation)`: y_b = epilogue(x_b @ w_b) for every b, of matrices of any strides, with y
contiguous. The epilogue adds the bias and applies the activation; where there is a dy, it gives instead dy times the
activation's slope there, the gradient of what came before the activation.
"""

from collections.abc import Callable

import torch

from kernels.arguments import empty_contiguous

Multiply = Callable[..., None]


def batches(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x as B×M×K and w as B×K×N; one w for all rows makes one matrix of them."""
    if w.dim() == 2:
        return x.flatten(0, -2)[None], w[None]
    return x.flatten(0, -3), w.flatten(0, -3)


def forward(multiply: Multiply) -> Callable[..., torch.Tensor]:
    """The bare forward of a rung."""

    def run(x, w, bias, activation):
        y = x.new_empty((*x.shape[:-1], w.shape[-1]))
        if y.numel():
            xs, ws = batches(x, w)
            multiply(xs, ws, y.view(len(xs), xs.shape[1], y.shape[-1]), bias, None, activation)
        return y

    return run


def backward(multiply: Multiply) -> Callable[..., tuple[torch.Tensor | None, ...]]:
    """The bare backward of a rung: the gradients are products too, of transposed matrices, which are strides."""

    def run(dy, x, w, bias, activation):
        dx, dw = empty_contiguous(x), empty_contiguous(w)
        dbias = None if bias is None else torch.empty_like(bias)
        if not dy.numel():
            return dx.zero_(), dw.zero_(), None if dbias is None else dbias.zero_()
        xs, ws = batches(x, w)
        g = dy.reshape(len(xs), -1, dy.shape[-1])
        if activation != "none":
            dy, g = g, empty_contiguous(g)
            multiply(xs, ws, g, bias, dy, activation)
        if dx.numel():
            multiply(g, ws.mT, dx.view(xs.shape), None, None, "none")
            multiply(xs.mT, g, dw.view(ws.shape), None, None, "none")
        if dbias is not None:  # a row of ones times g
            rows = g.reshape(1, -1, g.shape[-1])
            ones = g.new_ones((1, 1, 1)).expand(1, 1, rows.shape[1])
            multiply(ones, rows, dbias.view(1, 1, -1), None, None, "none")
        return dx, dw, dbias

    return run
