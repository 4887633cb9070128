"""Builds layer_norm.cu as a PyTorch C++ extension: with nvcc, on a machine that has it."""

from pathlib import Path

import kernels.ops.layer_norm
import torch
from torch.utils import cpp_extension

HERE = Path(__file__).parent
KERNELS = Path(kernels.ops.layer_norm.__file__).parent

# PyTorch tells nvcc to leave out what converts half precision by a cast, which layer_norm.cu is written with.
CASTS = [
    f"-U__CUDA_NO_{type}_CONVERSIONS__" for type in ("HALF", "BFLOAT16")
]


def build():
    """torch.ops.extension.layer_norm, compiled where PyTorch has not compiled this text before."""
    cpp_extension.load(
        "layer_norm_extension",
        [str(HERE / "operator.cpp"), str(HERE / "launch.cu")],
        extra_include_paths=[str(KERNELS)],
        extra_cuda_cflags=CASTS,
        is_python_module=False,
    )
    return torch.ops.extension.layer_norm.default
