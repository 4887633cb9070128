"""What a call of a kernel costs the CPU, by how the kernel was made known to PyTorch: recorded by book/recorders/calls.py."""

import json

import torch

from kernels.measure.results import FOLDER, file_name
from kernels.ops.layer_norm import cuda

CALLS = FOLDER / "calls"


def kernel(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    """The first rung of level 5 as a plain function: allocates y and launches."""
    return cuda.block(x, weight, bias, eps)


def stored(gpu: str) -> dict:
    """The committed record of a GPU by its name, such as "NVIDIA H200"."""
    return json.loads((CALLS / file_name(gpu)).read_text())
