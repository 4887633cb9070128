"""Where NVIDIA's headers are, which come in several of its wheels or with a CUDA toolkit."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
from pathlib import Path

from kernels.cuda.errors import CompileError


@functools.cache
def cuda_headers() -> tuple[Path, ...]:
    """The folders of NVIDIA's headers: vector types, half and bfloat16, which compute on a host too."""
    roots = _header_roots()
    found, missing = [], []
    for header, package in (
        ("cuda_fp16.h", "nvidia-cuda-runtime"),
        ("crt/host_defines.h", "nvidia-cuda-crt"),
        ("nv/target", "nvidia-cuda-cccl"),
        ("cuda/std/cstdint", "nvidia-cuda-cccl"),
    ):
        folders = [root / folder for root in roots for folder in ("include", "include/cccl")]
        folder = next((folder for folder in folders if (folder / header).is_file()), None)
        found.append(folder)
        if folder is None:
            missing.append(f"{header} of {package}")
    if missing:
        raise CompileError(
            f"NVIDIA's headers were not found: {', '.join(missing)}. CUDA kernels on a CPU need them: "
            "pip install 'cuda-toolkit[cudart,crt,cccl]==13.*'"
        )
    return tuple(dict.fromkeys(found))


def _header_roots() -> list[Path]:
    """Where a CUDA toolkit may be: NVIDIA's wheels, $CUDA_PATH, $CUDA_HOME, beside nvcc, the usual place."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) / "cu13" for root in (spec.submodule_search_locations if spec else ())]
    roots += [Path(os.environ[name]) for name in ("CUDA_PATH", "CUDA_HOME") if os.environ.get(name)]
    nvcc = shutil.which("nvcc")
    roots += [Path(nvcc).resolve().parent.parent] if nvcc else []
    return [*roots, Path("/usr/local/cuda")]
