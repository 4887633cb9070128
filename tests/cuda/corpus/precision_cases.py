"""Half, bfloat16, integers of eight and four bits, optimisers."""

import numpy as np
import torch
from torch import arange, randint, randn, zeros

from corpus.case import Case, blank

HALF, BF16 = torch.float16, torch.bfloat16
SGD = np.array((0.1, 0.9, 0.2, True), np.dtype([(n, "f4") for n in "lmd"] + [("nesterov", "?")], align=True))[()]


def adamw(p, g, m, v):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
    update = (m / (1 - 0.9**3)) / ((v / (1 - 0.999**3)).sqrt() + 1e-8) + 0.01 * p
    return {"p": p - 1e-3 * update, "m": m, "v": v}


def sgd(p, g, buf):
    buf = 0.9 * buf + 0.8 * g
    return {"buf": buf, "p": p - 0.1 * (g + 0.9 * buf)}


def clipped(module, a):
    module.get_function("norm_squared")((3,), (128,), (a["g"], a["squared"], a["n"]))
    module.get_function("clip")((8,), (128,), (a["g"], a["squared"], np.float32(1.5), a["n"]))


def lion(p, g, m):
    return {"p": p * (1 - 0.01 * 0.1) - 0.01 * (0.9 * m + 0.1 * g).sign(), "m": 0.99 * m + 0.01 * g}


def residual(x, r, dtype):
    y = (x.clamp(min=0) + r * 0.5).to(dtype)
    return {"y": y.double(), "f": y.double()}


def quantised(x):
    scales = x.abs().amax(1) / 127
    # The quotient is float's, so that ties and near ties fall as in the kernel.
    return {"q": (x.float() / scales.float()[:, None]).round().to(torch.int8), "scales": scales}


def unpacked(packed, scale_zero):
    words = packed.long() & 0xFFFFFFFF
    nibbles = (words[:, None] >> 4 * arange(8)) & 15
    scale, zero = scale_zero.repeat_interleave(4, 0)[:, None].unbind(2)
    return {"out": (nibbles - zero) * scale}


def fp8(x):
    q = x.float().clamp(-448, 448).to(torch.float8_e4m3fn)  # conversions saturate
    return {"bits": q.view(torch.uint8), "y": q.double()}


CASES = (
    Case(
        "half.cu",
        "haxpy",
        lambda: {"n": 1001, "a": np.float16(0.75), "x": randn(1001).half(), "y": randn(1001).half()},
        lambda x, y: {"y": 0.75 * x + y},
        grid=(1,),
    ),
    Case(
        "half.cu",
        "hdot",
        lambda: {"a": torch.rand(1013).half(), "b": torch.rand(1013).half(), "result": zeros(1), "n": 1013},
        lambda a, b: {"result": (a * b).half().double().sum()[None]},
        grid=(2,),
        block=(128,),
    ),
    Case(
        "half.cu",
        "absmax_bf16",
        lambda: {"x": randn(7, 94).to(BF16), "out": blank(7, dtype=BF16), "pairs": 47},
        lambda x: {"out": x.abs().amax(1)},
        grid=(7,),
        block=(32,),
        tolerance=1e-6,
    ),
    *(
        Case(
            "half.cu",
            f"relu_residual<{name}>",
            lambda dtype=dtype: {
                "x": randn(301).to(dtype),
                "r": randn(301).to(dtype),
                "y": blank(301, dtype=dtype),
                "f": blank(301),
                "n": 301,
            },
            lambda x, r, dtype=dtype: residual(x, r, torch.float32 if dtype is None else dtype),
            grid=(3,),
            block=(128,),
            tolerance=1e-6,
        )
        for name, dtype in (("__half", HALF), ("__nv_bfloat16", BF16), ("float", torch.float32))
    ),
    Case(
        "half.cu",
        "bucket_half2",
        lambda: {
            "x": (randint(-8, 9, (300, 2)) / 4).half(),  # sums are exact in any order
            "bucket": randint(0, 7, (300,)).int(),
            "sums": zeros(7, 2).half(),
            "n": 300,
        },
        lambda x, bucket: {"sums": zeros(7, 2).double().index_add(0, bucket, x)},
        grid=(3,),
        block=(128,),
    ),
    Case(
        "quantise.cu",
        "quantise_rows",
        lambda: {
            "x": randn(11, 201) * 3,
            "q": blank(11, 201, dtype=torch.int8),
            "scales": blank(11),
            "cols": 201,
        },
        quantised,
        grid=(11,),
        block=(64,),
    ),
    Case(
        "quantise.cu",
        "gemm_dp4a",
        lambda: {
            "a": randint(-127, 128, (21, 52)).to(torch.int8),
            "b": randint(-127, 128, (30, 52)).to(torch.int8),
            "c": blank(21, 30),
            "scale_a": torch.rand(21),
            "scale_b": torch.rand(30),
            "m": 21,
            "n": 30,
            "k4": 13,
        },
        lambda a, b, scale_a, scale_b: {"c": (a.double() @ b.double().T) * scale_a[:, None] * scale_b},
        grid=(2, 3),
        block=(16, 8),
    ),
    Case(
        "quantise.cu",
        "dequantise_int4",
        lambda: {
            "packed": randint(-(2**31), 2**31, (100,)).int(),
            "scale_zero": torch.stack([torch.rand(25), torch.full((25,), 8.0)], 1),
            "out": blank(100, 8),
            "n": 100,
        },
        unpacked,
        block=(128,),
    ),
    Case(
        "quantise.cu",
        "fp8_round_trip",
        lambda: {"x": randn(501) * 200, "bits": blank(501, dtype=torch.uint8), "y": blank(501), "n": 501},
        fp8,
        grid=(4,),
        block=(128,),
    ),
    Case(
        "optimisers.cu",
        "adamw_kernel",
        lambda: (
            {"p": randn(1000), "g": randn(1000), "m": randn(1000) / 9, "v": torch.rand(1000), "n": 1000}
            | {name: np.float32(value) for name, value in (("lr", 1e-3), ("b1", 0.9), ("b2", 0.999))}
            | {"c1": np.float32(1 - 0.9**3), "c2": np.float32(1 - 0.999**3)}
            | {"eps": np.float32(1e-8), "decay": np.float32(0.01)}
        ),
        adamw,
        grid=(4,),
    ),
    Case(
        "optimisers.cu",
        "sgd_momentum",
        lambda: {"p": randn(1000), "g": randn(1000), "buf": randn(1000), "n": 1000, "options": SGD},
        sgd,
        grid=(3,),
        block=(128,),
    ),
    Case(
        "optimisers.cu",
        ("norm_squared", "clip"),
        lambda: {"g": randn(1000), "squared": zeros(1).double(), "n": 1000},
        lambda g: {"g": g * 1.5 / g.norm(), "squared": g.square().sum()[None]},
        launch=clipped,
    ),
    Case(
        "optimisers.cu",
        "lion",
        lambda: (
            {"p": randn(1000), "g": randn(1000), "m": randn(1000), "n": 1000}
            | {n: np.float32(v) for n, v in (("lr", 0.01), ("b1", 0.9), ("b2", 0.99), ("wd", 0.1))}
        ),
        lion,
        grid=(8,),
        block=(128,),
    ),
)
