"""Compiles a launch's file by NVIDIA's compiler as a GPU gets it, with no GPU."""

from __future__ import annotations

import functools
from pathlib import Path

from kernels.cuda.cpu.headers import cuda_headers
from kernels.cuda.source import NVRTC_HEADERS, Source

from .launch import OPTIONS, text_of


@functools.cache
def compiled(path: Path, names: tuple[str, ...]) -> tuple[bytes, dict[str, str]]:
    """The cubin of these kernels of a file for sm_90, and their mangled names."""
    from cuda.core import Program, ProgramOptions

    source = Source(text_of(path), path.name, OPTIONS, names)
    # CuPy's options are these.
    options = ProgramOptions(
        std="c++17",
        arch="sm_90",
        lineinfo=True,
        ftz=True,
        device_as_default_execution_space=True,
        include_path=[str(folder) for folder in (NVRTC_HEADERS, *cuda_headers())],
    )
    code = Program(source.for_nvrtc, "c++", options).compile("cubin", name_expressions=names)
    return code.code, {name: _text(code.symbol_mapping[name]) for name in names}


def _text(symbol: str | bytes) -> str:
    return symbol.decode() if isinstance(symbol, bytes) else symbol
