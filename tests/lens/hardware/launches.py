"""The launches that the lens is compared with an H200 on."""

from __future__ import annotations

import functools
import math
from pathlib import Path

import numpy as np
import torch

from kernels.cuda import Kernel, RawModule

from .launch import OPTIONS, Launch, text_of
from .launches_of_algorithms import ALGORITHMS
from .launches_of_layer_norm import LAYER_NORM

N = 4096

_TYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "__half": torch.float16,
    "__nv_bfloat16": torch.bfloat16,
}
_INTEGERS = {"unsigned char": torch.uint8, "short": torch.int16, "int": torch.int32, "long long": torch.int64}
# Vectors by the type and number of their parts.
_VECTORS = {
    "float2": (torch.float32, 2),
    "float4": (torch.float32, 4),
    "double2": (torch.float64, 2),
    "__half2": (torch.float16, 2),
    "int2": (torch.int32, 2),
    "int4": (torch.int32, 4),
    "uchar4": (torch.uint8, 4),
    "short2": (torch.int16, 2),
}


def _parts(kind):
    return _VECTORS.get(kind) or ((_TYPES | _INTEGERS)[kind], 1)


def _elements(data, kind, n, offset=0):
    """n elements of a type or vector type, `offset` elements behind a boundary."""
    dtype, parts = _parts(kind)
    if dtype.is_floating_point:
        return data.normal(n * parts, dtype, offset * parts)
    return data.integers(0, 100, n * parts, dtype, offset * parts)


def _copy(kind, n=N, read_offset=0, write_offset=0, block=256):
    where = f" {read_offset} {write_offset}" if read_offset or write_offset else ""
    return Launch(
        f"copy {kind}{where} {n}" + (f" block {block}" if block != 256 else ""),
        "copies.cu",
        f"copy<{kind}>",
        (math.ceil(n / block),),
        (block,),
        lambda d: (_elements(d, kind, n, read_offset), _elements(d, kind, n, write_offset), n),
    )


def _strided(kernel, kind, stride, n=N):
    many = n * stride

    def args(d):
        return _elements(d, kind, many if "read" in kernel else n), _elements(d, kind, many), stride, n

    return Launch(f"{kernel} {kind} {stride}", "copies.cu", f"{kernel}<{kind}>", (n // 256,), (256,), args)


def _same(kind, lanes):
    def args(d):
        return _elements(d, kind, N // lanes), _elements(d, kind, N), lanes, N

    return Launch(f"{lanes} lanes share a {kind}", "copies.cu", f"shared_by<{kind}>", (N // 256,), (256,), args)


def _floats(name, file, kernel, grid, block, *rest, into=N, n=N, shared_mem=0):
    """A kernel of (x, y, rest …) with n floats in and `into` floats out."""
    return Launch(name, file, kernel, grid, block, lambda d: (d.normal(n), d.zeros(into), *rest), shared_mem)


def _shared(kind, write, read, size, threads=256):
    dtype, parts = _parts(kind)
    return Launch(
        f"shared {kind} write {write} read {read} of {size}",
        "shared_strides.cu",
        f"strides<{kind}>",
        (4,),
        (threads,),
        lambda d: (_elements(d, kind, 4 * threads), _elements(d, kind, 4 * threads), write, read, size),
        size * dtype.itemsize * parts,
    )


def _gather(kind, span):
    def args(d):
        return _elements(d, kind, 256), d.integers(0, span, 1024), _elements(d, kind, 1024)

    return Launch(f"shared gather {kind} of {span}", "shared_strides.cu", f"gather_shared<{kind}>", (4,), (256,), args)


def _scatter(kind):
    def args(d):
        return _elements(d, kind, 1024), d.permutation(256), _elements(d, kind, 1024)

    return Launch(f"shared scatter {kind}", "shared_strides.cu", f"scatter_shared<{kind}>", (4,), (256,), args)


def _structs(kernel, inputs, out=N, dtype=torch.float32, *rest):
    return Launch(
        kernel,
        "structs.cu",
        kernel,
        (N // 256,),
        (256,),
        lambda d: (*(d.normal(n) for n in inputs), d.zeros(out, dtype), *rest, N),
    )


COPIES = (
    *(_copy(kind) for kind in (*_TYPES, *_INTEGERS, *_VECTORS)),
    *(_copy("float", N - 3, *offsets) for offsets in ((1, 0), (0, 1), (8, 0), (3, 5), (31, 0))),
    _copy("float4", 1024, 1),
    _copy("float2", 1024, 1, 2),
    _copy("__half", 1000, 1),
    _copy("unsigned char", 1000, 3),
    _copy("double", 1001, 3, 1),
    _copy("float", 1000, block=96),
    _copy("float", 777, block=50),
    _copy("float4", 777, block=20),
    *(_strided("strided_read", "float", stride) for stride in (2, 3, 4, 7, 8, 16, 32, 33)),
    *(_strided("strided_write", "float", stride) for stride in (2, 5, 8, 32)),
    _strided("strided_read", "float4", 2),
    _strided("strided_write", "float4", 3),
    _strided("strided_read", "double", 2),
    _strided("strided_read", "__half", 8),
    _strided("strided_write", "unsigned char", 4),
    *(_same("float", lanes) for lanes in (2, 32, 256)),
    *(_same("float4", lanes) for lanes in (2, 32)),
    _same("float2", 32),
    _floats("reversed", "copies.cu", "reversed", (16,), (256,), N),
    _floats("grid stride", "copies.cu", "grid_stride", (5,), (256,), N),
    _floats("thread contiguous 8", "copies.cu", "thread_contiguous", (2,), (256,), 8, N),
    _floats("thread contiguous 33", "copies.cu", "thread_contiguous", (1,), (128,), 33, N),
    _floats("float4 shuffled", "copies.cu", "float4_shuffled", (2,), (256,), 512, n=8 * 512 + 32, into=4 * 512),
    Launch(
        "read only",
        "copies.cu",
        "read_only",
        (16,),
        (256,),
        lambda d: (d.normal(N), d.normal(8), d.zeros(N), N),
    ),
)

STRUCTS = (
    _structs("points_aos", (3 * N,)),
    _structs("points_soa", (N, N, N)),
    _structs("radius_aos", (4 * N,)),
    _structs("volume_aos", (4 * N,)),
    _structs("volume_aligned", (4 * N,)),
    Launch(
        "advance_aos",
        "structs.cu",
        "advance_aos",
        (16,),
        (256,),
        lambda d: (d.normal(3 * N), np.float32(1.0), np.float32(2.0), np.float32(3.0), N),
    ),
    Launch(
        "grey",
        "structs.cu",
        "grey",
        (16,),
        (256,),
        lambda d: (d.integers(0, 256, 4 * N, torch.uint8), d.zeros(N, torch.uint8), N),
    ),
)

SHARED = (
    *(_shared("float", stride, stride, 8448) for stride in (1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 17, 24, 31, 32, 33)),
    *(_shared("float", 1, read, 256) for read in (2, 7, 16, 32)),
    *(_shared("double", stride, stride, 4096, 128) for stride in (1, 2, 3, 16, 17)),
    *(_shared("float2", 1, read, 256) for read in (1, 2, 32)),
    *(_shared("float4", 1, read, 256) for read in (1, 2, 3, 8)),
    *(_shared("unsigned char", stride, stride, 4096, 64) for stride in (1, 4, 33)),
    _shared("short", 1, 2, 256),
    *(_gather(kind, span) for kind in ("float", "float2", "float4", "unsigned char") for span in (16, 256)),
    *(_scatter(kind) for kind in ("float", "float2", "float4", "unsigned char")),
    _floats("broadcast 32", "shared_strides.cu", "broadcast", (4,), (256,), 32, 1),
    _floats("broadcast 4 of 32 apart", "shared_strides.cu", "broadcast", (4,), (256,), 8, 32),
    Launch(
        "float4 columns",
        "shared_strides.cu",
        "float4_columns",
        (4,),
        (64,),
        lambda d: (d.normal(1024), d.zeros(1024)),
    ),
)

TRANSPOSES = (
    _floats("transpose naive write", "transpose.cu", "naive_write", (2, 16), (32, 8), 128, 64, n=8192, into=8192),
    _floats("transpose naive read", "transpose.cu", "naive_read", (4, 8), (32, 8), 128, 64, n=8192, into=8192),
    _floats("transpose 16 x 16", "transpose.cu", "naive_write", (4, 7), (16, 16), 100, 60, n=6000, into=6000),
    _floats("transpose tiled", "transpose.cu", "tiled<0>", (2, 4), (32, 8), 128, 64, n=8192, into=8192),
    _floats("transpose padded", "transpose.cu", "tiled<1>", (2, 4), (32, 8), 128, 64, n=8192, into=8192),
    _floats("transpose padded edges", "transpose.cu", "tiled<1>", (2, 4), (32, 8), 100, 50, n=5000, into=5000),
    _floats("transpose tile 32 x 32", "transpose.cu", "tiled_whole<0>", (2, 2), (32, 32), 64),
    _floats("transpose tile 32 x 33", "transpose.cu", "tiled_whole<1>", (2, 2), (32, 32), 64),
    _floats("transpose swizzled", "transpose.cu", "tiled_swizzled", (2, 2), (32, 32), 64),
)

LAUNCHES = (*COPIES, *STRUCTS, *SHARED, *TRANSPOSES, *ALGORITHMS, *LAYER_NORM)


def names(path: Path) -> tuple[str, ...]:
    """The kernels that are launched from a file."""
    return tuple(dict.fromkeys(launch.kernel for launch in LAUNCHES if launch.path == path))


@functools.cache
def _module(path: Path) -> RawModule:
    return RawModule(code=text_of(path), path=path.name, options=OPTIONS, name_expressions=names(path))


def kernel(launch: Launch) -> Kernel:
    """A launch's kernel. Those of a file are compiled together."""
    return _module(launch.path).get_function(launch.kernel)
