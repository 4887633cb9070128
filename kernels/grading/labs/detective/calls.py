"""The calls of the six kernels, (random, **sizes) → the call to try."""

from __future__ import annotations

import numpy as np
import torch

from kernels.grading.exercise import Call


def smooth(random: torch.Generator, n: int) -> Call:
    x = torch.randn(n, generator=random)

    def mean(x: torch.Tensor) -> torch.Tensor:
        padded = torch.nn.functional.pad(x, (1, 1))
        return (padded[:-2] + padded[1:-1] + padded[2:]) / 3

    args = {"y": torch.empty(n), "x": x, "n": n}
    return Call(args, {"y": mean(x.double())}, {"y": mean(x)}, grid=(-(-n // 128),), block=(128,))


def row_total(random: torch.Generator, M: int, T: int) -> Call:
    x = torch.randn(M, T, generator=random) + 0.5
    args = {"y": torch.empty(M), "x": x}
    baseline = torch.from_numpy(
        np.add.accumulate(x.numpy(), axis=1)[:, -1]
    )  # of all orders, the one with the most rounding
    return Call(args, {"y": x.double().sum(1)}, {"y": baseline}, grid=(M,), block=(T,), shared_mem=4 * T)


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

    def sums(x: torch.Tensor) -> torch.Tensor:
        return (x[:, None] - x).abs().sum(1)

    args = {"y": torch.empty(n), "x": x, "n": n}
    return Call(args, {"y": sums(x.double())}, {"y": sums(x)}, grid=(-(-n // 64),), block=(64,))


def running_sum(random: torch.Generator, n: int) -> Call:
    x = torch.randn(n, generator=random) + 0.5
    padded = torch.nn.functional.pad(x, (0, -n % 32)).view(-1, 32)
    args = {"y": torch.empty(n), "x": x, "n": n}
    expected, baseline = (of.cumsum(1).flatten()[:n].contiguous() for of in (padded.double(), padded))
    return Call(args, {"y": expected}, {"y": baseline}, grid=(-(-n // 128),), block=(128,))


def first_largest(random: torch.Generator, M: int, N: int, values: int) -> Call:
    if values:
        x = torch.randint(0, values, (M, N), generator=random) / 8  # not whole, and as exact
        x[:, 1 << 16 :] += values  # so that no place is known by 16 bits
    else:
        x = torch.zeros(M, N)
        x[:, -1] = 1
    first = (x == x.amax(1, keepdim=True)).int().argmax(1).int()
    args = {"where": torch.empty(M, dtype=torch.int32), "x": x, "N": N}
    return Call(args, {"where": first}, grid=(M,), block=(128,))
