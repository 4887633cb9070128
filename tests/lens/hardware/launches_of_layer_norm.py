"""Launches of the project's own kernels."""

from __future__ import annotations

import numpy as np
import torch

from .launch import Launch

_FOLDER = "../../../kernels/ops/layer_norm/"
_TYPES = {"float": torch.float32, "__half": torch.float16, "__nv_bfloat16": torch.bfloat16}
EPS = np.float32(1e-5)


def _forward(rung, kind, M, N, threads, affine=True):
    dtype = _TYPES[kind]

    def args(d):
        weight, bias = (d.normal(N, dtype), d.normal(N, dtype)) if affine else (None, None)
        return d.normal(M * N, dtype), weight, bias, d.zeros(M * N, dtype), N, N, EPS

    name = f"layer_norm {rung} {kind} {M} x {N}" + ("" if affine else " without weight")
    shared_mem = 4 * threads if rung == "block" else 0
    return Launch(name, f"{_FOLDER}layer_norm.cu", f"layer_norm_{rung}<{kind}>", (M,), (threads,), args, shared_mem)


def _atomics(kind, M, N, threads):
    dtype = _TYPES[kind]

    def args(d):
        inputs = d.normal(M * N, dtype), d.normal(M * N, dtype), d.normal(N, dtype)
        return *inputs, d.zeros(M * N, dtype), d.zeros(N), d.zeros(N), N, N, N, EPS

    name = f"layer_norm backward atomics {kind} {M} x {N}"
    return Launch(
        name, f"{_FOLDER}layer_norm_backward.cu", f"layer_norm_backward_atomics<{kind}>", (M,), (threads,), args
    )


def _column_sums(kind, G, N):
    dtype = _TYPES[kind]

    def args(d):
        return d.normal(G * 2 * N), d.zeros(N, dtype), d.zeros(N, dtype), G, N

    name = f"layer_norm backward column_sums {kind} {G} x {N}"
    grid = (-(-2 * N // 32),)
    return Launch(name, "../../../kernels/cuda/device/column_sums.cuh", f"column_sums<{kind}, 2>", grid, (32, 32), args)


LAYER_NORM = (
    *(_forward(rung, kind, 6, 512, 128) for rung in ("block", "warp") for kind in _TYPES),
    *(_forward(rung, "float", 5, 777, 256) for rung in ("block", "warp")),
    _forward("warp", "float", 9, 96, 32, affine=False),
    *(_atomics(kind, 6, 512, 128) for kind in ("float", "__half")),
    _column_sums("float", 64, 96),
)
