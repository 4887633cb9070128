"""Level 5: the Python side of layer_norm.cu.

Rungs, plain to best:
    block    one block a row; sums by a tree in shared memory.
"""

from pathlib import Path

import numpy as np
import torch

from kernels.cuda import Kernel, RawModule
from kernels.machine import Machine
from kernels.operation import Case
from kernels.ops.layer_norm.arguments import as_columns, as_rows
from kernels.ops.layer_norm.registration import register

SOURCE = Path(__file__).with_name("layer_norm.cu")
NAMES = {
    torch.float32: "layer_norm<float>",
    torch.float16: "layer_norm<__half>",
    torch.bfloat16: "layer_norm<__nv_bfloat16>",
}
MODULE = RawModule(path=SOURCE, options=("-std=c++17",), name_expressions=tuple(NAMES.values()))
KERNELS = {dtype: MODULE.get_function(name) for dtype, name in NAMES.items()}


def unsupported(case: Case, machine: Machine) -> str | None:
    if machine.device == "cpu" and machine.compiler is None:
        return "no C++ compiler: g++ or clang++ is needed"
    return None


def launch_parameters(N: int) -> int:
    """Threads of a block for rows of N: the power of two above N/4, at least a warp and at most 512."""
    return min(max(1 << (N // 4).bit_length(), 32), 512)


def launch(
    kernels: dict[torch.dtype, Kernel],
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> torch.Tensor:
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    rows = as_rows(x)
    M, N = rows.shape
    weight, bias = as_columns(weight), as_columns(bias)
    threads = launch_parameters(N)
    arguments = (rows, weight, bias, y, rows.stride(0), N, np.float32(eps))
    kernels[x.dtype]((M,), (threads,), arguments, shared_mem=4 * threads)
    return y


def forward(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    return launch(KERNELS, x, weight, bias, eps)


layer_norm = register("layer_norm_cuda", forward)
