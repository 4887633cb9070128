"""What is timed: each operation as a CUDA kernel, as a Triton kernel, as C++ loops, and in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from cpu_speed import triton_kernels
from kernels.cuda import RawModule
from kernels.triton.launch import launch

MODULE = RawModule(path=Path(__file__).parent / "kernels.cu")
N, HEADS, S, D = 1024, 4, 256, 64
EPS = np.float32(1e-5)
SCALE = np.float32(1 / math.sqrt(D))

Data = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Row:
    """One operation at one size. `shapes`: of its inputs by name; `out`: of its result.

    cuda, triton and loops take the inputs and a tensor for the result; the last takes the library of loops too.
    """

    name: str
    shapes: dict[str, tuple[int, ...]]
    out: tuple[int, ...]
    cuda: Callable[[Data], None]
    triton: Callable[[Data], None]
    loops: Callable[[Data, object], None]
    reference: Callable[..., torch.Tensor]


def _cuda(name: str, grid: tuple[int, ...], block: tuple[int, ...], *scalars: object) -> Callable[[Data], None]:
    kernel = MODULE.get_function(name)
    return lambda data: kernel(grid, block, (*data.values(), *scalars))


def _triton(kernel: Callable, grid: tuple[int, ...], *scalars: object, **constants: int) -> Callable[[Data], None]:
    return lambda data: launch(kernel, grid, *data.values(), *scalars, **constants)


def _loops(name: str, *scalars: object) -> Callable[[Data, object], None]:
    return lambda data, library: library.call(name, *data.values(), *scalars)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.mT / math.sqrt(D), -1) @ v


_VECTOR = 4 * 2**20
_MATRIX = 256
_MATMUL = {
    "shapes": {"a": (_MATRIX, _MATRIX), "b": (_MATRIX, _MATRIX)},
    "out": (_MATRIX, _MATRIX),
    "triton": _triton(triton_kernels.matmul, (4, 4), _MATRIX, BLOCK=64, BLOCK_K=32),
    "loops": _loops("matmul", _MATRIX),
    "reference": torch.matmul,
}
_QKV = {name: (HEADS, S, D) for name in "qkv"}

ROWS = (
    Row(
        "vector add, 4M",
        {"x": (_VECTOR,), "y": (_VECTOR,)},
        (_VECTOR,),
        _cuda("vector_add", (_VECTOR // 256,), (256,), _VECTOR),
        _triton(triton_kernels.vector_add, (_VECTOR // 1024,), _VECTOR, BLOCK=1024),
        _loops("vector_add", _VECTOR),
        torch.add,
    ),
    Row(
        "transpose, 1024²",
        {"x": (N, N)},
        (N, N),
        _cuda("transpose", (N // 32, N // 32), (32, 8), N),
        _triton(triton_kernels.transpose, (N // 32, N // 32), N, BLOCK=32),
        _loops("transpose", N),
        torch.t,
    ),
    Row(
        "layer norm, 1024²",
        {"x": (N, N), "weight": (N,), "bias": (N,)},
        (N, N),
        _cuda("layer_norm", (N,), (256,), N, EPS),
        _triton(triton_kernels.layer_norm, (N,), float(EPS), N=N),
        _loops("layer_norm", N, N, EPS),
        lambda x, weight, bias: torch.nn.functional.layer_norm(x, (N,), weight, bias, float(EPS)),
    ),
    Row(
        "softmax, 1024²",
        {"x": (N, N)},
        (N, N),
        _cuda("softmax", (N,), (256,), N),
        _triton(triton_kernels.softmax, (N,), N=N),
        _loops("softmax", N, N),
        lambda x: torch.softmax(x, -1),
    ),
    Row("matmul, tiled, 256³", cuda=_cuda("matmul_tiled", (16, 16), (16, 16), _MATRIX), **_MATMUL),
    Row("matmul, registers, 256³", cuda=_cuda("matmul_registers", (4, 4), (16, 16), _MATRIX), **_MATMUL),
    Row(
        f"attention, {HEADS}×{S}×{D}",
        _QKV,
        (HEADS, S, D),
        _cuda("attention", (S // 64, HEADS), (64,), S, SCALE),
        _triton(triton_kernels.attention, (S // 64, HEADS), S, float(SCALE), BLOCK=64, TILE=32, D=D),
        _loops("attention", HEADS, S, D, SCALE),
        _attention,
    ),
)
