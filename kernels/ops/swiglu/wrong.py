"""Deliberately wrong gates, which the check must reject. "gradient-…" have right outputs."""

from functools import partial

import torch

from kernels.activations import activated
from kernels.ops.swiglu import cuda
from kernels.ops.swiglu.native import SIGNATURE, swiglu, swiglu_backward
from kernels.wrong import edited, variant


def always_tanh(gate, up, activation):
    return swiglu(gate, up, "gelu_tanh" if activation == "gelu" else activation)


def narrow(gate, up, activation):
    return activated(gate, activation) * (1 + up) - activated(gate, activation)


def one_layout(gate, up, activation):
    return swiglu(gate, up.as_strided(gate.shape, gate.stride()), activation)


def value_gradient(dy, gate, up, activation):
    dgate, _ = swiglu_backward(dy, gate, up, activation)
    return dgate, (dy * torch.sigmoid(gate.float())).to(up.dtype)


def slope_of_value(dy, gate, up, activation):
    """Takes the sigmoid for the whole slope of the SiLU."""
    _, dup = swiglu_backward(dy, gate, up, activation)
    return (dy * up.float() * torch.sigmoid(gate.float())).to(gate.dtype), dup


wrong = partial(variant, SIGNATURE, __file__, forward=swiglu)
NO_TAIL = "j < N) {\n        y[j]", "j < 0) {\n        y[j]"
scalar, packs = cuda.FORWARD[0].fn, cuda.FORWARD[-1].fn
backward = cuda.BACKWARD[-1].fn
VARIANTS = (
    wrong(1, "halves-swapped", "activates up, not the gate", forward=lambda gate, up, name: swiglu(up, gate, name)),
    wrong(1, "always-silu", "whatever the activation", forward=lambda gate, up, name: swiglu(gate, up)),
    wrong(1, "always-tanh", "approximates GELU unasked", forward=always_tanh),
    wrong(1, "narrow-arithmetic", "computes in the input's dtype", forward=narrow),
    wrong(1, "one-layout", "takes the strides of gate for up's", forward=one_layout),
    wrong(5, "no-tail", "leaves out what fills no pack", forward=edited(packs, *NO_TAIL)),
    wrong(5, "one-stride", "the row stride of gate for both", forward=edited(scalar, "i * up_stride", "i * gate_stride")),
    wrong(1, "gradient-sigmoid", "the slope of SiLU without its second part", backward=slope_of_value),
    wrong(1, "gradient-of-up", "dup of the sigmoid, not of the activation", backward=value_gradient),
    wrong(
        5,
        "gradient-overwritten",
        "dup is made of a gate that has become dgate",
        backward=edited(backward, "dys.at[k] * activated_gate.value", "dys.at[k] * gates.at[k]"),
    ),
)  # fmt: skip
