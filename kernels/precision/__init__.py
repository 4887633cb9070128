"""Fewer bits: products in 8, weights in 4, two of four weights, and bits given to who needs them."""

from kernels.precision.float8 import Float8Linear, convert_back, convert_to_float8, overflows
from kernels.precision.weights import QuantizedLinear, quantize_weights

__all__ = ["Float8Linear", "QuantizedLinear", "convert_back", "convert_to_float8", "overflows", "quantize_weights"]
