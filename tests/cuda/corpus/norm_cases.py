"""Softmax and norms, forward and backward."""

import numpy as np
import torch
from torch import randn, zeros
from torch.nn import functional as F

from corpus.case import Case, blank

BF16 = torch.bfloat16


def softmax_by_atomics(module, a):
    sizes = ((4,), (256,))
    module.get_function("softmax_atomic_max")(*sizes, (a["x"], a["bits"], a["n"]))
    module.get_function("softmax_atomic_sum")(*sizes, (a["x"], a["e"], a["bits"], a["sum"], a["n"]))
    module.get_function("softmax_divide")(*sizes, (a["e"], a["sum"], a["n"]))


def packed_rows(dtype):
    def args():
        n, c = 13, 136
        return {
            "out": blank(n, c, dtype=dtype),
            "mean": blank(n),
            "rstd": blank(n),
            "x": (randn(n, c) * 2 + 1).to(dtype),
            "weight": randn(c).to(dtype),
            "bias": randn(c).to(dtype),
            "n": n,
            "c": c,
        }

    return args


def layer_norm(x, weight, bias):
    mean, rstd = x.mean(1), (x.var(1, correction=0) + 1e-5).rsqrt()
    return {"out": (x - mean[:, None]) * rstd[:, None] * weight + bias, "mean": mean, "rstd": rstd}


def layer_norm_backward_args():
    x = randn(37, 70) + 0.5
    mean, rstd = x.mean(1), (x.var(1, correction=0) + 1e-5).rsqrt()
    gradients = {"dinp": randn(37, 70), "dweight": zeros(70), "dbias": zeros(70)}
    inputs = {"dout": randn(37, 70), "x": x, "weight": randn(70), "mean": mean, "rstd": rstd}
    return gradients | inputs | {"n": 37, "c": 70}


def layer_norm_backward(dinp, dout, x, weight):
    x, weight, bias = x.requires_grad_(), weight.requires_grad_(), zeros(70).double().requires_grad_()
    F.layer_norm(x, (70,), weight, bias, 1e-5).backward(dout)
    return {"dinp": dinp + x.grad, "dweight": weight.grad, "dbias": bias.grad}


def add_rms_norm(x, residual, weight):
    total = (x + residual).to(BF16).double()
    return {"residual": total, "x": total * (total.square().mean(1, keepdim=True) + 1e-6).rsqrt() * weight}


def batch_norm(x, mean, var):
    y = F.batch_norm(x, mean, var, training=True, momentum=0.1, eps=1e-5)
    return {"y": y, "mean": mean, "var": var}


CASES = (
    Case(
        "softmax.cu",
        "softmax_forward_kernel1",
        lambda: {"out": blank(150, 45), "x": randn(150, 45) * 4, "n": 150, "c": 45},
        lambda x: {"out": x.softmax(1)},
        grid=(3,),
        block=(64,),
    ),
    *(
        Case(
            "softmax.cu",
            "softmax_block",
            lambda dtype=dtype: {
                "out": blank(7, 333, dtype=dtype),
                "x": (randn(7, 333) * 9).to(dtype),
                "c": 333,
                "inverse": np.float32(0.5),
            },
            lambda x: {"out": (x / 2).softmax(1)},
            grid=(7,),
            block=(160,),
            shared_mem=40,
            options=options,
        )
        for dtype, options in ((torch.float32, ()), (torch.float16, ("-DUSE_FP16",)), (BF16, ("-DUSE_BF16",)))
    ),
    Case(
        "softmax.cu",
        "online_softmax_warp<4>",
        lambda: {"x": randn(11, 100) * 5, "y": blank(11, 100), "n": 11, "c": 100},
        lambda x: {"y": x.softmax(1)},
        grid=(3,),
        block=(32, 4),
    ),
    Case(
        "softmax.cu",
        ("softmax_atomic_max", "softmax_atomic_sum", "softmax_divide"),
        lambda: {"x": randn(1000) * 3 - 9, "e": blank(1000), "bits": zeros(1).int(), "sum": zeros(1), "n": 1000},
        lambda x: {"e": x.softmax(0)},
        launch=softmax_by_atomics,
    ),
    Case(
        "softmax.cu",
        "softmax_backward",
        lambda: {"dy": randn(13, 50), "y": (randn(13, 50) * 2).softmax(1), "dx": blank(13, 50), "n": 13, "c": 50},
        lambda dy, y: {"dx": (dy - (dy * y).sum(1, keepdim=True)) * y},
        grid=(4,),
        block=(128,),
    ),
    Case(
        "norms.cu",
        "layernorm_forward_packed<float>",
        packed_rows(torch.float32),
        layer_norm,
        grid=(4,),
        block=(32, 4),
        shared_mem=6 * 136 * 4,
    ),
    Case(
        "norms.cu",
        "layernorm_forward_packed<__nv_bfloat16>",
        packed_rows(BF16),
        layer_norm,
        grid=(4,),
        block=(32, 4),
        shared_mem=6 * 136 * 2,
    ),
    Case(
        "norms.cu",
        "layernorm_backward",
        layer_norm_backward_args,
        layer_norm_backward,
        grid=(3,),
        block=(128,),
        shared_mem=2 * 70 * 4,
    ),
    Case(
        "norms.cu",
        "fused_add_rms_norm",
        lambda: {
            "x": randn(5, 210).to(BF16),
            "residual": randn(5, 210).to(BF16),
            "weight": randn(210).to(BF16),
            "eps": np.float32(1e-6),
            "width": 210,
        },
        add_rms_norm,
        grid=(5,),
        block=(96,),
    ),
    Case(
        "norms.cu",
        "batch_norm_train",
        lambda: (
            {"x": randn(4, 6, 35) * 2 + 3, "y": blank(4, 6, 35), "mean": randn(6), "var": torch.rand(6)}
            | {"n": 4, "c": 6, "length": 35, "eps": np.float32(1e-5), "momentum": np.float32(0.1)}
        ),
        batch_norm,
        grid=(6,),
        block=(128,),
    ),
)
