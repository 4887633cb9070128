"""Losses, activations and rotary embeddings."""

import numpy as np
import torch
from torch import arange, randint, randn, zeros
from torch.nn import functional as F

from corpus.case import Case, blank

BF16 = torch.bfloat16


def classifier_args():
    targets = randint(0, 201, (19,))
    targets[[3, 11]] = -100
    names = {"logits": randn(19, 208) * 3, "losses": blank(19), "dloss": np.float32(0.25), "targets": targets}
    return names | {"V": 201, "P": 208, "ignored": -100}


def classifier(logits, targets):
    x = logits[:, :201].clone().requires_grad_()
    losses = F.cross_entropy(x, targets, ignore_index=-100, reduction="none")
    losses.sum().backward()
    return {"losses": losses.detach(), "logits": torch.cat([0.25 * x.grad, logits[:, 201:]], 1)}


def swiglu_gradient(dout, x):
    x = x.requires_grad_()
    gate, up = x.chunk(2, 1)
    (F.silu(gate) * up).backward(dout)
    return {"dx": x.grad}


def gelu_gradient(d, x):
    F.gelu(x.requires_grad_(), approximate="tanh").backward(d)
    return {"d": x.grad}


def rope_split(q, positions):
    angle = positions[:, None, None] * 10000.0 ** (-arange(0, 24, 2).double() / 24)
    x, y = q.chunk(2, -1)
    return {"q": torch.cat([x * angle.cos() - y * angle.sin(), y * angle.cos() + x * angle.sin()], -1)}


def rope_pairs(x, table):
    rotated = torch.view_as_complex(x.contiguous()) * torch.view_as_complex(table)[:, None]
    return {"y": torch.view_as_real(rotated)}


def rope_half(x, cos, sin):
    a, b = x[..., 0], x[..., 1]
    return {"x": torch.stack([a * cos - b * sin, a * sin + b * cos], -1)}


def angles():
    return arange(21)[:, None] * 100.0 ** (-arange(8) / 8)


CASES = (
    Case(
        "cross_entropy.cu",
        "crossentropy_forward",
        lambda: {
            "losses": blank(3, 7),
            "probs": randn(3, 7, 30).softmax(2),
            "targets": randint(0, 30, (3, 7)).int(),
            "b": 3,
            "t": 7,
            "v": 30,
        },
        lambda probs, targets: {"losses": -probs.gather(2, targets.long()[..., None]).log()[..., 0]},
        block=(32,),
    ),
    Case("cross_entropy.cu", "fused_classifier", classifier_args, classifier, grid=(19,), block=(128,)),
    Case(
        "cross_entropy.cu",
        "smoothed_loss",
        lambda: (
            {"x": randn(45, 77) * 2, "targets": randint(0, 77, (45,)).int(), "loss": zeros(1)}
            | {"rows": 45, "classes": 77, "smoothing": np.float32(0.1)}
        ),
        lambda x, targets: {"loss": F.cross_entropy(x, targets.long(), label_smoothing=0.1)[None]},
        grid=(12,),
        block=(128,),
    ),
    Case(
        "activations.cu",
        "gelu_forward_kernel",
        lambda: {"out": blank(1000), "x": randn(1000) * 2, "n": 1000},
        lambda x: {"out": F.gelu(x, approximate="tanh")},
        grid=(8,),
        block=(128,),
    ),
    Case(
        "activations.cu",
        "gelu_backward_inplace",
        lambda: {"d": randn(1000), "x": randn(1000) * 2, "n": 1000},
        gelu_gradient,
        grid=(4,),
    ),
    Case(
        "activations.cu",
        "bias_gelu_half2",
        lambda: (
            {"x": randn(9, 62).half(), "bias": randn(62).half(), "y": blank(9, 62, dtype=torch.float16)}
            | {"pairs": 9 * 31, "columns": 31}
        ),
        lambda x, bias: {"y": F.gelu((x + bias).half().double())},
        grid=(2,),
        block=(64,),
    ),
    Case(
        "activations.cu",
        "act_and_mul<float, silu<float>>",
        lambda: {"out": blank(6, 75), "x": randn(6, 150) * 2, "d": 75},
        lambda x: {"out": F.silu(x[:, :75]) * x[:, 75:]},
        grid=(6,),
        block=(64,),
    ),
    Case(
        "activations.cu",
        "swiglu_backward",
        lambda: {"dout": randn(6, 75), "x": randn(6, 150), "dx": blank(6, 150), "tokens": 6, "d": 75},
        swiglu_gradient,
        grid=(2, 6),
        block=(64,),
    ),
    Case(
        "activations.cu",
        "bias_backward",
        lambda: {"dout": randn(45, 70), "dbias": randn(70), "rows": 45, "OC": 70},
        lambda dout, dbias: {"dbias": dbias + dout.sum(0)},
        grid=(3,),
        block=(32, 8),
    ),
    Case(
        "rope.cu",
        "rope_half_split",
        lambda: {
            "q": randn(9, 5, 24),
            "positions": arange(9).int() * 3,
            "heads": 5,
            "d": 24,
            "base": np.float32(10000),
        },
        rope_split,
        grid=(9,),
        block=(64,),
        tolerance=1e-4,  # the angle's own rounding
    ),
    Case(
        "rope.cu",
        "rope_interleaved",
        lambda: {
            "x": randn(7, 3, 10, 2),
            "table": torch.view_as_real(torch.polar(torch.ones(7, 10), randn(7, 10))),
            "y": blank(7, 3, 10, 2),
            "seq": 7,
            "heads": 3,
            "pairs": 10,
        },
        rope_pairs,
    ),
    Case(
        "rope.cu",
        "rope_half2",
        lambda: {"x": randn(21, 8, 2).half(), "cos": angles().cos(), "sin": angles().sin(), "seq": 21, "pairs": 8},
        rope_half,
        grid=(2,),
        block=(8, 16),
    ),
)
