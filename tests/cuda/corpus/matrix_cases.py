"""Transposes and matrix products."""

import numpy as np
import torch
from torch import randint, randn

from corpus.case import Case, blank

HALF, BF16 = torch.float16, torch.bfloat16


def tf32(x):
    """Float rounded to tf32's ten bits, ties away from zero."""
    return ((x.float().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32).double()


def permuted(inp):
    q, k, v = (inp[:, :, i].transpose(1, 2).contiguous() for i in range(3))
    return {"q": q, "k": k, "v": v}


def symmetric(a, c):
    return {"c": c + a.T @ a}


CASES = (
    Case(
        "transpose.cu",
        "transposeNaive<double>",
        lambda: {"out": blank(45, 37, dtype=torch.float64), "x": randn(37, 45).double(), "width": 45, "height": 37},
        lambda x: {"out": x.T},
        grid=(3, 5),
        block=(16, 8),
    ),
    Case(
        "transpose.cu",
        "transposeNoBankConflicts",
        lambda: {"out": blank(101, 67), "x": randn(67, 101), "width": 101, "height": 67},
        lambda x: {"out": x.T},
        grid=(7, 5),
        block=(16, 4),
        options=("-DTILE_DIM=16", "-DBLOCK_ROWS=4"),
    ),
    Case(
        "transpose.cu",
        "transpose_swizzled",
        lambda: {"a": randn(75, 75), "b": blank(75, 75), "n": 75},
        lambda a: {"b": a.T},
        grid=(3, 3),
        block=(32, 32),
    ),
    Case(
        "transpose.cu",
        "permute_kernel",
        lambda: (
            {f: blank(2, 5, 7, 12) for f in "qkv"} | {"inp": randn(2, 7, 3, 5, 12), "B": 2, "N": 7, "NH": 5, "d": 12}
        ),
        permuted,
        grid=(4,),
    ),
    Case(
        "matmul.cu",
        "sgemm_naive",
        lambda: {
            "m": 37,
            "n": 29,
            "k": 53,
            "alpha": np.float32(0.5),
            "a": randn(37, 53),
            "b": randn(53, 29),
            "beta": np.float32(2),
            "c": randn(37, 29),
        },
        lambda a, b, c: {"c": 0.5 * (a @ b) + 2 * c},
        grid=(2, 1),
        block=(32, 32),
    ),
    Case(
        "matmul.cu",
        "matrixMulShared",
        lambda: {"c": blank(50, 41), "a": randn(50, 77), "b": randn(77, 41), "rows": 50, "inner": 77, "cols": 41},
        lambda a, b: {"c": a @ b},
        grid=(6, 7),
        block=(8, 8),
        options=("-DTILE_WIDTH=8",),
    ),
    Case(
        "matmul.cu",
        "gemm_batched_strided<64, 32, 8, 8, 4>",
        lambda: {
            "a": randn(3, 70, 45),
            "strideA": 70 * 45,
            "b": randn(45, 50),
            "strideB": 0,
            "c": blank(3, 70, 50),
            "strideC": 70 * 50,
            "m": 70,
            "n": 50,
            "k": 45,
        },
        lambda a, b: {"c": a @ b},
        grid=(2, 2, 3),
        block=(64,),
    ),
    Case(
        "matmul.cu",
        "sgemm_vec4",
        lambda: {"a": randn(75, 44), "b": randn(44, 68), "c": blank(75, 68), "m": 75, "n": 68, "k": 44},
        lambda a, b: {"c": a @ b},
        grid=(2, 2),
        block=(16, 16),
    ),
    Case(
        "matmul.cu",
        "dsyrk",
        lambda: {"a": randn(31, 27).double(), "c": torch.zeros(27, 27).double() + 0.5, "n": 27, "k": 31},
        symmetric,
        grid=(2, 4),
        block=(16, 8),
    ),
    Case(
        "tensor_core.cu",
        "wmma_naive",
        lambda: {
            "a": randn(64, 80).half(),
            "b": randn(48, 80).half(),  # column-major
            "c": randn(64, 48),
            "d": blank(64, 48),
            "m": 64,
            "n": 48,
            "k": 80,
            "alpha": np.float32(0.25),
            "beta": np.float32(-1),
        },
        lambda a, b, c: {"d": 0.25 * (a @ b.T) - c},
        grid=(1, 2),
        block=(128, 2),
    ),
    *(
        Case(
            "tensor_core.cu",
            f"wmma_shared<{name}>",
            lambda dtype=dtype: {
                "a": randn(75, 40).to(dtype),
                "b": randn(40, 50).to(dtype),
                "c": blank(75, 50),
                "m": 75,
                "n": 50,
                "k": 40,
            },
            lambda a, b: {"c": a @ b},
            grid=(2, 2),
            block=(128,),
        )
        for name, dtype in (("half", HALF), ("__nv_bfloat16", BF16))
    ),
    Case(
        "tensor_core.cu",
        "wmma_tf32",
        lambda: {"a": randn(32, 40), "b": randn(40, 48), "c": blank(32, 48), "lda": 40, "ldb": 48, "ldc": 48, "k": 40},
        lambda a, b: {"c": tf32(a) @ tf32(b)},
        grid=(3, 2),
        block=(32,),
    ),
    Case(
        "tensor_core.cu",
        "wmma_int8",
        lambda: {
            "a": randint(-128, 128, (64, 48)).to(torch.int8),
            "b": randint(-128, 128, (24, 48)).to(torch.int8),
            "c": blank(64, 24, dtype=torch.int32),
            "n": 24,
            "k": 48,
        },
        lambda a, b: {"c": a.int() @ b.int().T},
        grid=(3, 2),
        block=(32,),
    ),
    Case(
        "async_copy.cu",
        "gemm_double_buffered",
        lambda: {"a": randn(96, 80), "b": randn(80, 64), "c": blank(96, 64), "m": 96, "n": 64, "k": 80},
        lambda a, b: {"c": a @ b},
        grid=(2, 3),
        block=(128,),
    ),
    Case(
        "async_copy.cu",
        "row_square_sum<3>",
        lambda: {"x": randint(-99, 99, (5, 7, 64)).int(), "out": torch.zeros(5, dtype=torch.int32), "batches": 7},
        lambda x: {"out": x.square().sum((1, 2)).int()},
        grid=(5,),
        block=(64,),
        shared_mem=3 * 64 * 4,
    ),
    Case(
        "async_copy.cu",
        "reverse_blocks",
        lambda: {"x": randn(7, 96).double(), "out": blank(7, 96, dtype=torch.float64)},
        lambda x: {"out": x.flip(1)},
        grid=(7,),
        block=(96,),
    ),
    Case(
        "async_copy.cu",
        "rotate_rows",
        lambda: {"x": randn(6, 200), "y": blank(6, 200), "width": 200, "by": 3},
        lambda x: {"y": x.roll(-3, 1)},
        grid=(6,),
        block=(64,),
        shared_mem=800,
    ),
)
