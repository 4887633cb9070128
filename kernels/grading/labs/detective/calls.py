"""The calls of the six kernels, (random, **sizes) → the call to try."""

from __future__ import annotations

import numpy as np
import torch

from kernels.grading.exercise import Call
from kernels.grading.far_apart import ends_only


def smooth(random: torch.Generator, n: int, infinite: bool = False, ends: bool = False) -> Call:
    x = torch.randn((2, 128) if ends else (n,), generator=random)
    if infinite:
        x[[0, n // 2, 127, -1]] = torch.inf  # a product with 0 would be NaN

    def mean(x: torch.Tensor) -> torch.Tensor:
        padded = torch.nn.functional.pad(x, (1, 1))
        return (padded[..., :-2] + padded[..., 1:-1] + padded[..., 2:]) / 3

    blocks = -(-n // 128)
    apart = ends_only(blocks, y=(128,), x=(128,)) if ends else {}
    args = {"y": torch.empty(x.shape), "x": x, "n": n}
    return Call(args, {"y": mean(x.double())}, {"y": mean(x)}, grid=(blocks,), block=(128,), **apart)


def row_total(random: torch.Generator, M: int, T: int, ends: bool = False) -> Call:
    x = torch.randn(2 if ends else M, T, generator=random) + 0.5
    if not ends:
        x[1:2, -1] = torch.inf  # a product with 0 would be NaN
    args = {"y": torch.empty(len(x)), "x": x}
    baseline = torch.from_numpy(
        np.add.accumulate(x.numpy(), axis=1)[:, -1]
    )  # of all orders, the one with the most rounding
    apart = ends_only(M, y=(), x=(T,)) if ends else {}
    return Call(args, {"y": x.double().sum(1)}, {"y": baseline}, grid=(M,), block=(T,), shared_mem=4 * T, **apart)


def histogram(random: torch.Generator, n: int, values: int) -> Call:
    blocks = 3
    met = torch.randperm(256, generator=random)[:values].to(torch.uint8)
    x = met[torch.randint(0, values, (n,), generator=random)]
    block = torch.arange(n) // 128 % blocks
    counts = torch.bincount(block * 256 + x, minlength=blocks * 256).int().view(blocks, 256)
    args = {"counts": torch.empty(blocks, 256, dtype=torch.int32), "x": x, "n": n}
    return Call(args, {"counts": counts}, grid=(blocks,), block=(128,))


def distances(random: torch.Generator, n: int) -> Call:
    # No sum rounds, but half types would: the more points there are, the fewer bits has each.
    most = 8192 if n < 1000 else 1024
    x = torch.randint(-most, most, (n,), generator=random) / 1024
    if n % 64 == 0 and n != 64:
        x *= 2.0**80  # no float holds a square
    elif n > 64:
        x += 1000  # of sums of such numbers, the difference is not that of the numbers

    def sums(x: torch.Tensor) -> torch.Tensor:
        return (x[:, None] - x).abs().sum(1)

    args = {"y": torch.empty(n), "x": x, "n": n}
    return Call(args, {"y": sums(x.double())}, {"y": sums(x)}, grid=(-(-n // 64),), block=(64,))


def running_sum(random: torch.Generator, n: int, infinite: bool = False) -> Call:
    x = torch.randn(n, generator=random) + 0.5
    if infinite:  # in lanes that some steps pass over, and in the last one, which a shuffle around the end would give
        x[[0, 32 + 5, 64 + 31]] = torch.tensor([torch.inf, -torch.inf, torch.inf])
    padded = torch.nn.functional.pad(x, (0, -n % 32)).view(-1, 32)
    args = {"y": torch.empty(n), "x": x, "n": n}
    expected, baseline = (of.cumsum(1).flatten()[:n].contiguous() for of in (padded.double(), padded))
    return Call(args, {"y": expected}, {"y": baseline}, grid=(-(-n // 128),), block=(128,))


def first_largest(random: torch.Generator, M: int, N: int, values: int, ends: bool = False) -> Call:
    rows = 2 if ends else M
    if values:
        x = torch.randint(0, values, (rows, N), generator=random) / 8  # not whole, and as exact
        x[:, 1 << 16 :] += values  # so that no place is known by 16 bits
        if values > N > 1:  # small ones, infinity, and before the largest the one that comes next
            x[1:2] *= 2.0**-60
            x[2:3, N // 2] = torch.inf
            x[:, 0] = torch.nextafter(x.amax(1), torch.zeros(()))
    else:
        x = torch.zeros(rows, N)
        x[:, -1] = 1
    first = (x == x.amax(1, keepdim=True)).int().argmax(1).int()
    args = {"where": torch.empty(rows, dtype=torch.int32), "x": x, "N": N}
    apart = ends_only(M, where=(), x=(N,)) if ends else {}
    return Call(args, {"where": first}, grid=(M,), block=(128,), **apart)
