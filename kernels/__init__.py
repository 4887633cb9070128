"""GPU kernels at five levels: the package that the chapters and labs import.

A *level* is a way to write an operation: 1 native, 2 TorchScript, 3 torch.compile, 4 Triton, 5 CUDA C. Every operation
exists at all five, computes the same mathematics, and is checked against float64.

    import kernels

    y = kernels.layer_norm(x, weight, bias, level="triton")
    op = kernels.operation("layer_norm")
"""

import logging
import os
import sys

import torch

# Triton decides between its compiler and its interpreter when it is imported, so the choice is made here, first.
# TRITON_INTERPRET=0 or 1 in the environment wins.
if not torch.cuda.is_available() and "TRITON_INTERPRET" not in os.environ:
    if "triton" in sys.modules:
        raise ImportError(
            "triton was imported before kernels, as a compiler, and there is no GPU here: import kernels first "
            "(torch.compile imports triton too), or set TRITON_INTERPRET=1 before Python starts"
        )
    os.environ["TRITON_INTERPRET"] = "1"

from kernels.operation import LEVELS, Case, Operation, Variant, operation, operations
from kernels.ops.add_rms_norm import add_rms_norm
from kernels.ops.attention import attention
from kernels.ops.bias_gelu import bias_gelu
from kernels.ops.cross_entropy import cross_entropy
from kernels.ops.decode import decode
from kernels.ops.embedding import embedding
from kernels.ops.histogram import histogram
from kernels.ops.layer_norm import layer_norm
from kernels.ops.layer_norm_gelu import layer_norm_gelu
from kernels.ops.linear_cross_entropy import linear_cross_entropy
from kernels.ops.matmul import matmul
from kernels.ops.reduction import reduction
from kernels.ops.residual_dropout import residual_dropout
from kernels.ops.rms_norm import rms_norm
from kernels.ops.rope import rope
from kernels.ops.scan import scan
from kernels.ops.segment_reduce import segment_reduce
from kernels.ops.softmax import softmax
from kernels.ops.swiglu import geglu, swiglu
from kernels.systems import demo
from kernels.validation import validate

__all__ = [
    "LEVELS",
    "Case",
    "Operation",
    "Variant",
    "add_rms_norm",
    "attention",
    "bias_gelu",
    "cross_entropy",
    "decode",
    "demo",
    "embedding",
    "geglu",
    "histogram",
    "layer_norm",
    "layer_norm_gelu",
    "matmul",
    "linear_cross_entropy",
    "operation",
    "operations",
    "reduction",
    "rms_norm",
    "residual_dropout",
    "rope",
    "scan",
    "segment_reduce",
    "softmax",
    "swiglu",
    "validate",
]

# What PyTorch says when it first compiles where there is a CUDA toolkit and no GPU, in the middle of a page.
logging.getLogger("torch.utils.cpp_extension").addFilter(lambda said: "No CUDA runtime is found" not in said.msg)
