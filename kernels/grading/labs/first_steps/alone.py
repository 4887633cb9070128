"""Drills in which every thread works by itself: which element is mine, and what do I read for it?"""

from __future__ import annotations

import torch

from kernels.grading.drill import drill
from kernels.grading.exercise import Call
from kernels.grading.labs.first_steps.costs import one_each, spare_threads_rest
from kernels.grading.labs.first_steps.numbers import ZERO_TIMES_INFINITY, blocks, numbers


def _map(random: torch.Generator, n: int) -> Call:
    x = numbers(random, n)
    return Call({"y": torch.empty(n), "x": x}, {"y": x + 10}, block=(n,))


def _zip(random: torch.Generator, n: int, infinite: bool = False) -> Call:
    a, b = numbers(random, n), numbers(random, n)
    a[1], b[1] = a[1] / 2**13, b[1] * 2**13  # which a sum of both forgets
    if infinite:  # 0 · ∞, either way
        a[2], b[2], a[5], b[5] = 0, torch.inf, torch.inf, 0
    return Call({"y": torch.empty(n), "a": a, "b": b}, {"y": a * b}, block=(n,))


def _guard(random: torch.Generator, n: int) -> Call:
    x = numbers(random, n)
    return Call({"y": torch.empty(n), "x": x, "n": n}, {"y": x * x}, block=(64,))


def _blocks(random: torch.Generator, n: int) -> Call:
    x = numbers(random, n)
    return Call({"y": torch.empty(n), "x": x, "n": n}, {"y": x.flip(0)}, grid=(blocks(n, 32),), block=(32,))


def _triangle(random: torch.Generator, M: int, N: int, infinite: bool = False) -> Call:
    x = numbers(random, M * N).view(M, N)
    x[0, -1] = 0
    if infinite:  # above the diagonal: 0 times infinity is NaN
        x[torch.ones_like(x, dtype=torch.bool).triu(1)] = torch.inf
    args = {"y": torch.empty(M, N), "x": x, "M": M, "N": N}
    return Call(args, {"y": x.tril()}, grid=(blocks(N, 8), blocks(M, 4)), block=(8, 4))


def _broadcast(random: torch.Generator, M: int, N: int) -> Call:
    a, b = numbers(random, M), numbers(random, N)
    args = {"y": torch.empty(M, N), "a": a, "b": b, "M": M, "N": N}
    block = (8, 4) if M < 100 else (64, 2)
    return Call(args, {"y": a[:, None] + b}, grid=(blocks(N, block[0]), blocks(M, block[1])), block=block)


def _pool(random: torch.Generator, n: int, low: bool = False) -> Call:
    x = numbers(random, 4 * n)
    x[4:12] = torch.tensor([0, -1.5, -2.5, -0.5, 3, 3 + 2**-20, 3, 3])
    if low:  # no number that a kernel may begin with is below them
        x = x.abs() * -3e37
        x[:4] = -torch.inf
    largest = x.double().view(n, 4).amax(1)  # squares of such numbers are no floats
    return Call({"y": torch.empty(n), "x": x, "n": n}, {"y": largest}, grid=(blocks(n, 32),), block=(32,))


def _convolution(random: torch.Generator, n: int, K: int, infinite: bool = False) -> Call:
    x, w = numbers(random, n + K - 1), numbers(random, K)
    if infinite:  # 0 · ∞, either way
        x[10], w[1], x[20], w[2] = 0, torch.inf, torch.inf, 0
    args = {"y": torch.empty(n), "x": x, "w": w, "n": n, "K": K}
    return Call(args, {"y": (x.unfold(0, K, 1) * w).sum(1)}, grid=(blocks(n, 32),), block=(32,))


_MATRICES = {"even": {"M": 8, "N": 16}, "odd": {"M": 13, "N": 11}}

DRILLS = (
    drill(
        "map",
        _map,
        {"few": {"n": 8}, "more": {"n": 600}},
        {"more": {"n": range(300, 1000)}},
        "y[i] is x[i] + 10",
        None,
        one_each(2),
        inside="The launch has a thread for each element. Its number is threadIdx.x.",
    ),
    drill(
        "zip",
        _zip,
        {"few": {"n": 8}, "more": {"n": 600}, "infinite": {"n": 8, "infinite": True}},
        {"more": {"n": range(300, 1000)}},
        "y[i] is a[i] × b[i]",
        {"a[i] + b[i]": lambda a, b, **_: {"y": a + b}, "a[i] × a[i]": lambda a, **_: {"y": a * a}},
        one_each(3),
        hint={"expected nan": ZERO_TIMES_INFINITY},
    ),
    drill(
        "guard",
        _guard,
        {"few": {"n": 5}, "all": {"n": 64}, "none": {"n": 0}},
        {"few": {"n": range(1, 64)}},
        "y[i] is x[i] × x[i]",
        {"2 x[i]": lambda x, **_: {"y": 2 * x}},
        spare_threads_rest(loads=2),
        inside="There are 64 threads and n elements. What should a thread do whose number is n or more?",
    ),
    drill(
        "blocks",
        _blocks,
        {"even": {"n": 64}, "odd": {"n": 75}},
        {"odd": {"n": range(65, 200)}},
        "y is x, last element first",
        {
            "x, not reversed": lambda x, **_: {"y": x},
            "each block reversed by itself": lambda x, n, **_: {
                "y": torch.cat([part.flip(0) for part in x[:n].split(32)])
            },
        },
        spare_threads_rest(),
        inside="The last block has threads to spare. And where does x end: at x[n], or one before?",
        hint="Thread 0 of block 0 takes the last element. Which one is that?",
        large={"n": 70_000},
    ),
    drill(
        "triangle",
        _triangle,
        _MATRICES | {"infinite": {"M": 6, "N": 9, "infinite": True}},
        {"odd": {"M": range(5, 30), "N": range(9, 30)}},
        "y[i, j] is x[i, j] where j ≤ i, and 0 elsewhere",
        {
            "the part above the diagonal: row and column are exchanged in the condition": lambda x, **_: {
                "y": x.triu()
            },
            "all of x: no element was set to 0": lambda x, **_: {"y": x},
            "0 on the diagonal, too: it belongs to x": lambda x, **_: {"y": x.tril(-1)},
            "a product with 0, which is NaN where x is infinite: choose between x[i, j] and 0": lambda x, **_: {
                "y": x * torch.ones_like(x).tril()
            },
        },
        spare_threads_rest(),
        inside="A row needs a guard, and so does a column: i < M && j < N.",
        hint="i counts rows, by y; j counts columns, by x. The element i, j lies at i * N + j.",
        large={"M": 350, "N": 200},
    ),
    drill(
        "broadcast",
        _broadcast,
        _MATRICES,
        {"odd": {"M": range(5, 30), "N": range(9, 30)}},
        "y[i, j] is a[i] + b[j]",
        None,
        spare_threads_rest(),
        inside="a has M elements, one a row; b has N, one a column.",
        hint="Every thread of row i reads the same a[i].",
        large={"M": 350, "N": 200},
    ),
    drill(
        "pool",
        _pool,
        {"even": {"n": 32}, "odd": {"n": 45}, "low": {"n": 8, "low": True}},
        {"odd": {"n": range(33, 100)}},
        "y[i] is the largest of x[4 i] to x[4 i + 3]",
        {
            "the sum of the four": lambda x, n, **_: {"y": x.view(n, 4).sum(1)},
            "the largest so far began with 0, and all four are negative": lambda x, n, **_: {
                "y": x.view(n, 4).amax(1).clamp(min=0)
            },
            "the largest of the first three": lambda x, n, **_: {"y": x.view(n, 4)[:, :3].amax(1)},
        },
        spare_threads_rest(loads=5),
        inside="n is the number of elements of y; x has 4n.",
        hint="Begin with the first of the four, and compare the other three with it.",
        large={"n": 20_000},
    ),
    drill(
        "convolution",
        _convolution,
        {
            "even": {"n": 64, "K": 3},
            "odd": {"n": 45, "K": 5},
            "one left": {"n": 33, "K": 4},
            "wide": {"n": 40, "K": 1100},
            "infinite": {"n": 40, "K": 4, "infinite": True},
        },
        {"odd": {"n": range(33, 100), "K": range(1, 8)}},
        "y[i] is the sum of w[k] × x[i + k]",
        {
            "w[k] × x[i]: the window does not move": lambda x, w, n, **_: {"y": x[:n] * w.sum()},
            "w backwards": lambda x, w, **_: {"y": x.unfold(0, len(w), 1) @ w.flip(0)},
        },
        inside={
            "an array of": "K may be any number, and an array of a kernel's own has a size.",
            "": "x has n + K − 1 elements: the last window just fits.",
        },
        hint={"expected nan": ZERO_TIMES_INFINITY, "": "Compute y[0] and y[1] by hand for K = 2."},
        large={"n": 50, "K": 20_000},
    ),
)
