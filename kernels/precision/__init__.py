"""Fewer bits: products in 8, weights in 4, two of four weights, and bits given to who needs them."""

from kernels.precision.allocation import allocate_bits
from kernels.precision.float8 import Float8Linear, convert_back, convert_to_float8, overflows
from kernels.precision.two_four import TwoFourLinear, prune_2_4
from kernels.precision.weights import QuantizedLinear, quantize_weights

__all__ = [
    "Float8Linear",
    "QuantizedLinear",
    "TwoFourLinear",
    "allocate_bits",
    "convert_back",
    "convert_to_float8",
    "overflows",
    "prune_2_4",
    "quantize_weights",
]
