"""Drills in which the threads of a block share memory: load, wait, then read what another thread has loaded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch

from kernels.grading.drill import drill
from kernels.grading.exercise import Call, Property, Trial
from kernels.grading.labs.first_steps.costs import few_steps, loads
from kernels.grading.labs.first_steps.numbers import ZERO_TIMES_INFINITY, blocks, numbers
from kernels.grading.properties import counters
from kernels.grading.properties.differences import described


def _shared(random: torch.Generator, n: int, infinite: bool = False) -> Call:
    x = numbers(random, n)
    if infinite:  # at a block's end, of which its first thread wants nothing
        x[31::32], x[32::32] = torch.inf, torch.inf
    before = torch.cat([torch.zeros(1), x[:-1]])
    before[::32] = 0
    return Call({"y": torch.empty(n), "x": x, "n": n}, {"y": x - before}, grid=(blocks(n, 32),), block=(32,))


def _dot(random: torch.Generator, n: int, infinite: str = "") -> Call:
    a, b = numbers(random, n), numbers(random, n)
    if infinite:  # the last, which a spare thread may take times 0; or 0 · ∞
        a[-1], b[-1] = torch.inf, 1 if infinite == "last" else 0
    return Call({"y": torch.empty(1), "a": a, "b": b, "n": n}, {"y": (a @ b)[None]}, block=(128,))


def _axis_sum(random: torch.Generator, M: int, N: int, infinite: bool = False) -> Call:
    x = numbers(random, M * N).view(M, N)
    if infinite:  # which a spare thread may take times 0
        x[0, -1] = torch.inf
    return Call({"y": torch.empty(M), "x": x, "N": N}, {"y": x.sum(1)}, grid=(M,), block=(64,))


def _prefix_sum(random: torch.Generator, n: int, infinite: bool = False) -> Call:
    x = numbers(random, n)
    if infinite:  # where a product with 0 may take its factor from, which is NaN then
        x[[0, -1]] = torch.inf
    return Call({"y": torch.empty(n), "x": x, "n": n}, {"y": x.cumsum(0)}, block=(128,))


def _softmax_row(random: torch.Generator, M: int, N: int, outliers: bool = False) -> Call:
    x = torch.randn(M, N, generator=random)
    if outliers:  # in each column once, and at last rows of which all but one are small, and add up
        x[:N].diagonal().add_(200)
        x[N:, N // 2] += 10.5
        x[-2, :2] = -torch.inf  # whose exponential is 0
        x[-1] = 1.5
    else:
        x[0] += 85  # a float holds such an exponential, and not the sum of many
        x[1, N // 2 :] = 0  # equal ones
        x[1:2, 0] -= 85  # nor that of the others less this one
        x[-1] -= 200 * (M > 2)  # nor any of these
    args = {"y": torch.empty(M, N), "x": x, "N": N}
    right = x.double().softmax(1)
    e = torch.exp(x - x.amax(1, keepdim=True))
    # One thread adds up a row in N roundings, where torch's tree has six: from the first column or from the last one.
    first, last = (e / reduce(torch.add, columns) for columns in (e.split(1, 1), e.flip(1).split(1, 1)))
    further_off = torch.where((first - right).abs() > (last - right).abs(), first, last)
    return Call(args, {"y": right}, {"y": further_off}, grid=(M,), block=(64,))


def _masked_out(trials: Sequence[Trial]) -> str | None:
    for trial in trials:
        left = (trial.call.args["x"] == -torch.inf) & (trial.outputs["y"] != 0)
        if left.any():
            return f"{described('y', left, 'is', 'are')} not 0, where x is −∞\n(with {trial.where})"
    return None


def _transpose(random: torch.Generator, M: int, N: int) -> Call:
    x = numbers(random, M * N).view(M, N)
    args = {"y": torch.empty(N, M), "x": x, "M": M, "N": N}
    return Call(args, {"y": x.T.contiguous()}, grid=(blocks(N, 16), blocks(M, 16)), block=(16, 16))


def _tile(random: torch.Generator, M: int, N: int, K: int, infinite: bool = False) -> Call:
    a, b = numbers(random, M * K).view(M, K), numbers(random, K * N).view(K, N)
    if infinite:  # at the edge, beyond which a product has two factors of 0
        a[:, -1], b[-1, 0] = torch.inf, torch.inf
        # And 0 · ∞: in all that a block has of a at some k, or of b.
        a[:, :16], b[3, 2], a[4, 20], b[16:32] = 0, torch.inf, torch.inf, 0
    args = {"y": torch.empty(M, N), "a": a, "b": b, "M": M, "N": N, "K": K}
    return Call(args, {"y": a @ b}, grid=(blocks(N, 16), blocks(M, 16)), block=(16, 16))


_SIZES = {"M": range(17, 60), "N": range(17, 60)}
_EDGES = {"flat": {"M": 15, "N": 200}, "tall": {"M": 200, "N": 15}}  # of which all tiles are
_ADVICE = "neighbouring threads should {} neighbours"

DRILLS = (
    drill(
        "shared",
        _shared,
        {"even": {"n": 64}, "odd": {"n": 75}, "infinite": {"n": 64, "infinite": True}},
        {"odd": {"n": range(65, 200)}},
        "y[i] is x[i] minus the element before it in its block",
        {"x itself: nothing was subtracted": lambda x, **_: {"y": x}},
        loads("x", "x is loaded once"),
        together=True,
        hint={
            "infinite = True": "0 times infinity is NaN: who has no element before it subtracts 0, and no product with 0.",
            "": "The first thread of a block has no element before it, and subtracts nothing.",
        },
    ),
    drill(
        "dot",
        _dot,
        {
            "all": {"n": 128},
            "few": {"n": 75},
            "infinite": {"n": 75, "infinite": "last"},
            "times 0": {"n": 128, "infinite": "times 0"},
        },
        {"few": {"n": range(1, 128)}},
        "y[0] is the sum of a[i] × b[i]",
        {
            "the first product alone": lambda a, b, **_: {"y": (a * b)[:1]},
            "the first half": lambda a, b, **_: {"y": (a * b)[:64].sum()[None]},
        },
        counters.at_most(
            "global_load_requests",
            lambda n, **_: 2 * blocks(n, 32),
            name="all threads load",
            advice="let each thread load one element of a and one of b",
        ),
        few_steps(lambda n, **_: 64, "the sum takes seven rounds"),
        together=True,
        hint={"expected nan": ZERO_TIMES_INFINITY, "": "A thread without an element stores 0, which changes no sum."},
    ),
    drill(
        "axis_sum",
        _axis_sum,
        {
            "even": {"M": 5, "N": 128},
            "odd": {"M": 3, "N": 75},
            "short": {"M": 3, "N": 50},
            "infinite": {"M": 2, "N": 50, "infinite": True},
        },
        {"odd": {"M": range(2, 6), "N": range(1, 200)}},
        "y[i] is the sum of row i",
        {"the first 64 elements of the row": lambda x, **_: {"y": x[:, :64].sum(1)}},
        counters.fewest_sectors(
            "load", "x", "even", name="x is read in the fewest sectors", advice=_ADVICE.format("read")
        ),
        few_steps(lambda M, **_: 48 * M, "the sum takes six rounds"),
        together=True,
        hint={
            "infinite = True": "0 times infinity is NaN: who has no element adds 0, and no product with 0.",
            "": "A row may be longer than the block: a thread's next element lies blockDim.x further.",
        },
        large={"M": 3, "N": 9001},
    ),
    drill(
        "prefix_sum",
        _prefix_sum,
        {
            "all": {"n": 128},
            "few": {"n": 75},
            "infinite": {"n": 128, "infinite": True},
        },
        {"few": {"n": range(1, 128)}},
        "y[i] is the sum of x[0] to x[i]",
        {
            "the sum up to x[i − 1]": lambda x, **_: {"y": x.cumsum(0) - x},
            "x[i] + x[i − 1], after one round": lambda x, **_: {"y": x + torch.cat([x.new_zeros(1), x[:-1]])},
        },
        loads("x", "x is loaded once"),
        few_steps(lambda n, **_: 240, "the sums take seven rounds"),
        together=True,
        hint={
            "infinite = True": "0 times infinity is NaN, and so is infinity minus infinity: who has no element step to the "
            "left adds 0, and no product with 0.",
            "": "In each round: read the element that lies step to the left, wait, add it, wait.",
        },
    ),
    drill(
        "softmax_row",
        _softmax_row,
        {
            "all": {"M": 3, "N": 64},
            "few": {"M": 2, "N": 37},
            "one": {"M": 2, "N": 1},
            "outliers": {"M": 70, "N": 64, "outliers": True},
        },
        {"few": {"M": range(2, 5), "N": range(2, 64)}},
        "y[i, j] is exp(x[i, j]) divided by the sum of its row",
        {
            "exp(x), not divided": lambda x, **_: {"y": x.exp()},
            "a sum that is infinite: subtract the largest of the row first": lambda x, **_: {
                "y": torch.cat([0 * x[:1], x[1:].softmax(1)])
            },
        },
        Property("0 where x is −∞", _masked_out, "right", "What is the exponential of −∞, and of what comes near it?"),
        loads("x", "x is loaded once"),
        together=True,
        hint="exp(89) is infinite in a float. Subtract the largest of the row first: both change by the same factor.",
    ),
    drill(
        "transpose",
        _transpose,
        {"even": {"M": 32, "N": 48}, "odd": {"M": 37, "N": 21}} | _EDGES,
        {"odd": _SIZES},
        "y[j, i] is x[i, j]",
        None,
        counters.fewest_sectors(
            *("load", "x", "even"),
            ragged=tuple(_EDGES),
            name="x is read in the fewest sectors",
            advice=_ADVICE.format("read"),
        ),
        counters.fewest_sectors(
            *("store", "y", "even"),
            ragged=tuple(_EDGES),
            name="y is written in the fewest sectors",
            advice=_ADVICE.format("write"),
        ),
        together=True,
        hint="The block at column and row (bx, by) of tiles of x writes the tile at (by, bx) of y.",
        large={"M": 200, "N": 350},
    ),
    drill(
        "tile",
        _tile,
        {
            "even": {"M": 32, "N": 16, "K": 48},
            "odd": {"M": 21, "N": 37, "K": 19},
            "infinite": {"M": 17, "N": 20, "K": 37, "infinite": True},
        },
        {"odd": _SIZES | {"K": range(1, 60)}},
        "y[i, j] is the sum of a[i, k] × b[k, j]",
        {"the last tile alone": lambda a, b, K, **_: {"y": a[:, (K - 1) // 16 * 16 :] @ b[(K - 1) // 16 * 16 :]}},
        loads("a", "a is loaded once for each tile of a row", lambda N, **_: blocks(N, 16)),
        loads("b", "b is loaded once for each tile of a column", lambda M, **_: blocks(M, 16)),
        together=True,
        hint={"expected nan": ZERO_TIMES_INFINITY, "": "A tile that extends past the edge is filled with 0 there."},
        large={"M": 70, "N": 80, "K": 300},
    ),
)
