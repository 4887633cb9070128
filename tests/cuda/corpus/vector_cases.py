"""Element-wise kernels, vector operations, reductions, scans and histograms."""

import numpy as np
import torch
from torch import randint, randn, tensor, zeros

from corpus.case import Case, blank

GIVENS = np.array((0.6, 0.8), [("c", "f4"), ("s", "f4")])[()]


def rotated(x, y):
    return {"x": 0.6 * x + 0.8 * y, "y": 0.6 * y - 0.8 * x}


def scan_in_three_launches(module, a):
    prescan, n = module.get_function("prescan"), a["n"]
    blocks = -(-n // 256)
    prescan((blocks,), (128,), (a["x"], a["out"], a["sums"], n), 4 * (256 + 256 // 32))
    prescan((1,), (128,), (a["sums"], a["offsets"], None, blocks), 4 * (256 + 256 // 32))
    module.get_function("uniform_add")((blocks,), (256,), (a["out"], a["offsets"], n))


def single_pass_twice(module, a):
    for _ in range(2):  # the counter is left ready for another launch
        module.get_function("sum_single_pass")((5,), (256,), (a["x"], a["partial"], a["result"], a["n"]))


def text(length):
    letters = b"abcdefghijklmnopqrstuvwxyz ,.AZ{`"
    return tensor(list(letters), dtype=torch.int8)[randint(0, len(letters), (length,))]


def letter_counts(text):
    kept = text[(text >= 97) & (text <= 122)]
    return {"bins": torch.bincount((kept.long() - 97) // 4, minlength=7).int()}


def weighted(value, weight):
    bins = torch.floor((value + 2) / 4 * 24).long()
    inside = (bins >= 0) & (bins < 24)
    return {"bins": zeros(24, dtype=torch.float64).index_add(0, bins[inside], weight[inside])}


CASES = (
    Case(
        "elementwise.cu",
        "vecAdd",
        lambda: {"a": randn(1000), "b": randn(1000), "c": blank(1000), "n": 1000},
        lambda a, b: {"c": a + b},
        grid=(4,),
    ),
    Case(
        "elementwise.cu",
        "saxpy",
        lambda: {"n": 5003, "alpha": np.float32(1.7), "x": randn(5003), "y": randn(5003)},
        lambda alpha, x, y: {"y": alpha * x + y},
        grid=(3,),
        tolerance=2e-5,
    ),
    Case(
        "elementwise.cu",
        "transform<float, SmoothStep>",
        lambda: {"x": randn(777), "out": blank(777), "n": 777, "op": np.uint8(0)},
        lambda x: {"out": x.clamp(0, 1) ** 2 * (3 - 2 * x.clamp(0, 1))},
        grid=(2,),
        block=(64,),
    ),
    Case(
        "elementwise.cu",
        "leaky_relu_vec4",
        lambda: {"x": randn(1023), "y": blank(1023), "n": 1023, "slope": np.float32(0.125)},
        lambda x: {"y": torch.where(x > 0, x, x / 8)},
        grid=(3,),
        block=(128,),
    ),
    Case(
        "elementwise.cu",
        "hypot2d",
        lambda: {
            "u": randn(37, 72).double(),
            "v": randn(37, 72).double(),
            "w": zeros(37, 72).double(),
            "rows": 37,
            "cols": 67,
            "pitch": 72,
        },
        lambda u, v: {"w": torch.hypot(u, v) * (torch.arange(72) < 67)},
        grid=(5, 5),
        block=(16, 8),
    ),
    Case(
        "blas1.cu",
        "dot_kernel",
        lambda: {"a": randn(4099), "b": randn(4099), "result": zeros(1).double(), "n": 4099},
        lambda a, b: {"result": (a @ b)[None]},
        grid=(7,),
        block=(64,),
        options=("-DBLOCK_SIZE=64",),
    ),
    Case(
        "blas1.cu",
        "daxpby",
        lambda: {
            "n": 300,
            "a": 0.3,
            "x": randn(300, 2).double(),
            "incx": 2,
            "b": -1.1,
            "y": randn(300, 3).double(),
            "incy": 3,
        },
        lambda x, y: {"y": torch.cat([0.3 * x[:, :1] - 1.1 * y[:, :1], y[:, 1:]], 1)},
        grid=(2,),
    ),
    Case(
        "blas1.cu",
        "apply_rotation",
        lambda: {"x": randn(999), "y": randn(999), "n": 999, "g": GIVENS},
        rotated,
        grid=(2,),
        block=(96,),
    ),
    Case(
        "blas1.cu",
        "gemv",
        lambda: {"mat": randn(37, 203), "vec": randn(203), "out": blank(37), "m": 37, "n": 203},
        lambda mat, vec: {"out": mat @ vec},
        grid=(10,),
        block=(128,),
    ),
    Case(
        "reduce.cu",
        "reduce0",
        lambda: {"x": randint(-99, 99, (1000,)).int(), "out": blank(8, dtype=torch.int32), "n": 1000},
        lambda x: {"out": torch.nn.functional.pad(x, (0, 24)).view(8, 128).sum(1).int()},
        grid=(8,),
        block=(128,),
        shared_mem=512,
    ),
    Case(
        "reduce.cu",
        "reduce6<float, 512>",
        lambda: {"x": randn(3001), "out": blank(2), "n": 3001},
        lambda x: {"out": torch.nn.functional.pad(x, (0, 1095)).view(2, 2, 1024).sum((0, 2))},
        grid=(2,),
        block=(512,),
    ),
    Case(
        "reduce.cu",
        "reduce6<double, 64>",
        lambda: {"x": randn(1001).double(), "out": blank(1, dtype=torch.float64), "n": 1001},
        lambda x: {"out": x.sum()[None]},
        block=(64,),
    ),
    Case(
        "reduce.cu",
        "row_mean",
        lambda: {"x": randn(9, 301) + 3, "mean": blank(9), "cols": 301},
        lambda x: {"mean": x.mean(1)},
        grid=(9,),
        block=(128,),
    ),
    Case(
        "reduce.cu",
        "sum_single_pass",
        lambda: {"x": randn(10_001) + 1, "partial": blank(5), "result": blank(1), "n": 10_001},
        lambda x: {"result": x.sum()[None]},
        launch=single_pass_twice,
    ),
    Case(
        "scan.cu",
        "scan_hillis_steele",
        lambda: {"x": randn(3, 200), "out": blank(3, 200), "n": 200},
        lambda x: {"out": x.cumsum(1)},
        grid=(3,),
        shared_mem=2048,
    ),
    Case(
        "scan.cu",
        ("prescan", "uniform_add"),
        lambda: {
            "x": randint(-50, 99, (3000,)).int(),
            "out": blank(3000, dtype=torch.int32),
            "sums": blank(12, dtype=torch.int32),
            "offsets": blank(12, dtype=torch.int32),
            "n": 3000,
        },
        lambda x: {"out": (x.cumsum(0) - x).int()},
        launch=scan_in_three_launches,
    ),
    Case(
        "scan.cu",
        "scan_lookback<256>",
        lambda: {
            "x": randint(0, 99, (20_000,)).int(),
            "out": blank(20_000, dtype=torch.int32),
            "tiles": zeros(79, dtype=torch.int64),
            "ticket": zeros(1, dtype=torch.int32),
            "n": 20_000,
        },
        lambda x: {"out": x.cumsum(0).int()},
        grid=(79,),
    ),
    Case(
        "histogram.cu",
        "histo_kernel",
        lambda: {"buffer": randint(0, 256, (9001,)).byte(), "size": 9001, "histo": zeros(256, dtype=torch.int32)},
        lambda buffer: {"histo": torch.bincount(buffer, minlength=256).int()},
        grid=(4,),
    ),
    Case(
        "histogram.cu",
        "letter_histogram",
        lambda: {"text": text(5000), "length": 5000, "bins": zeros(7, dtype=torch.int32), "per_thread": 7},
        letter_counts,
        grid=(6,),
        block=(128,),
        shared_mem=28,
    ),
    Case(
        "histogram.cu",
        "weighted_histogram<24, 4>",
        lambda: {
            "value": (randn(3000) * 64).round() / 64 + 1 / 128,  # on no edge of a bin
            "weight": torch.rand(3000),
            "bins": zeros(24),
            "n": 3000,
            "lo": np.float32(-2),
            "hi": np.float32(2),
        },
        weighted,
        grid=(3,),
        block=(128,),
    ),
)
