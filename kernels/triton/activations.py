"""Level 4: activations of MLPs and their slopes, as kernels/activations.py has them. x is float32.

EXACT asks for functions whose error float32 would show; the half types do not.
"""

import triton
import triton.language as tl


@triton.jit
def sigmoid(x):
    """1 / (1 + exp(-x)), and what it lacks to 1, which a difference would round."""
    e = tl.exp(tl.minimum(-x, 80.0))  # finite
    s = 1.0 / (1.0 + e)
    return s, e * s


@triton.jit
def normal(x, bell, EXACT: tl.constexpr):
    """Phi of the normal distribution, to 1e-7 unless EXACT, by a series that takes the exponential of the slope, bell =
    exp(-x² / 2) (Abramowitz and Stegun 1964, "Handbook of mathematical functions", 7.1.26)."""
    if EXACT:
        phi = 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))
    else:
        t = 1.0 / (1.0 + 0.23164190 * tl.abs(x))
        series = 0.710706871 + t * (-0.726576014 + t * 0.530702715)
        tail = t * (0.127414796 + t * (-0.142248368 + t * series)) * bell
        phi = tl.where(x < 0.0, tail, 1.0 - tail)
    return phi


@triton.jit
def activated(x, ACTIVATION: tl.constexpr, EXACT: tl.constexpr):
    """The value and the slope; what is not used of them is not computed."""
    if ACTIVATION == "silu":
        s, rest = sigmoid(x)
        value, slope = x * s, s * (1.0 + x * rest)
    elif ACTIVATION == "gelu":
        bell = tl.exp(-0.5 * x * x)
        phi = normal(x, bell, EXACT)
        value, slope = x * phi, phi + x * bell * 0.3989422804014327
    else:
        s, rest = sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
        value = x * s
        slope = s + x * s * rest * 1.5957691216057308 * (1.0 + 3.0 * 0.044715 * x * x)
    return value, slope
