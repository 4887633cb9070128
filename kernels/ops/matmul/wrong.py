"""Deliberately wrong matrix products, which the check must reject. "gradient-…" have right outputs."""

from functools import partial

import torch

from kernels.machine import multiprocessors
from kernels.ops.matmul import cuda, products, triton_split
from kernels.ops.matmul.native import SIGNATURE, matmul, matmul_backward
from kernels.wrong import edited, variant


def half_sums(x, w, bias, activation):
    """Adds up in the input's dtype, sixteen products at a time."""
    parts = [matmul(x[..., k : k + 16], w[..., k : k + 16, :]) for k in range(0, x.shape[-1], 16)]
    h = sum(parts[1:], parts[0]) if parts else matmul(x, w)
    return matmul(h, torch.eye(h.shape[-1], dtype=h.dtype, device=h.device), bias, activation)


def bias_after(x, w, bias, activation):
    y = matmul(x, w, None, activation)
    return y if bias is None else y + bias


def tanh_gelu(x, w, bias, activation):
    h = matmul(x, w, bias)
    return h * torch.sigmoid(1.702 * h) if activation == "gelu" else h


def strides_ignored(x, w, bias, activation):
    return matmul(x, w.as_strided(w.shape, torch.empty(w.shape).stride()), bias, activation)


def last_part(x, w, bias, activation):
    (*_, M, K), N = x.shape, w.shape[-1]
    parts = triton_split.best_cut(M, N, K, multiprocessors(x.device))[1] if N and M else 1
    kept = K - K // parts if parts > 1 else K
    return matmul(x[..., :kept], w[..., :kept, :], bias, activation)


def without_slope(dy, x, w, bias, activation):
    return matmul_backward(dy, x, w, bias, "none")


def last_bias(dy, x, w, bias, activation):
    dx, dw, dbias = matmul_backward(dy, x, w, bias, activation)
    return dx, dw, None if dbias is None else dy.flatten(0, -2)[-1:].sum(0)


wrong = partial(variant, SIGNATURE, __file__, forward=matmul)
NO_GUARD = edited(products.forward(cuda.registers), "&& k + inner < K", "&& k + inner < K - 1")
LATE = edited(products.forward(cuda.wmma), "k < K; k += DEPTH", "k < K - DEPTH; k += DEPTH")
ONE_PRODUCT = edited(products.forward(cuda.shared), "w += tile.b * w_batch", "w += 0 * w_batch")
VARIANTS = (
    wrong(1, "half-sums", "adds up in the input's dtype", forward=half_sums),
    wrong(1, "bias-after", "adds the bias after the activation", forward=bias_after),
    wrong(1, "sigmoid-gelu", "takes the sigmoid for the normal distribution", forward=tanh_gelu),
    wrong(1, "strides-ignored", "reads memory as if w were contiguous", forward=strides_ignored),
    wrong(5, "short", "leaves out the last of K", forward=NO_GUARD),
    wrong(5, "last-tile", "leaves out the last tile along K", forward=LATE),
    wrong(5, "first-matrix", "multiplies every matrix by the first w", forward=ONE_PRODUCT),
    wrong(1, "last-part", "leaves out the last part of a split sum", forward=last_part),
    wrong(1, "gradient-without-slope", "the gradient forgets the activation", backward=without_slope),
    wrong(1, "gradient-last-row", "dbias is the last row's alone", backward=last_bias),
)
