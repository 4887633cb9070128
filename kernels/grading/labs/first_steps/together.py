"""Drills in which the threads of a block share memory: load, wait, then read what another thread has loaded."""

from __future__ import annotations

from collections.abc import Callable

import torch

from kernels.grading.drill import drill
from kernels.grading.exercise import Call, Property, Trial
from kernels.grading.labs.first_steps.numbers import blocks, whole
from kernels.grading.properties import counters


def _loads(array: str, name: str, times: Callable[..., int] = lambda **_: 1) -> Property:
    """An array is loaded from global memory once, or so many times: the rest is read from shared memory."""

    def broken(trial: Trial) -> str | None:
        loads = [one for one in trial.accesses if one.kind == "load" and array in one.names and one.space == "global"]
        loaded, size = sum(one.lanes for one in loads), trial.call.args[array].numel()
        if loaded <= size * times(**trial.sizes):
            return None
        worst = max(loads, key=lambda one: one.lanes)
        return (
            f"line {worst.line} loads {array}: {loaded:,} elements in all, where {size * times(**trial.sizes):,} would do; "
            "read from shared memory what another thread has loaded"
        )

    return counters.counted(name, (), broken, "")


def _shared(random: torch.Generator, n: int) -> Call:
    x = whole(random, n)
    before = torch.cat([torch.zeros(1), x[:-1]])
    before[::32] = 0
    return Call({"y": torch.empty(n), "x": x, "n": n}, {"y": x - before}, grid=(blocks(n, 32),), block=(32,))


def _dot(random: torch.Generator, n: int) -> Call:
    a, b = whole(random, 2, n)
    return Call({"y": torch.empty(1), "a": a, "b": b, "n": n}, {"y": (a @ b)[None]}, block=(128,))


def _axis_sum(random: torch.Generator, M: int, N: int) -> Call:
    x = whole(random, M, N)
    return Call({"y": torch.empty(M), "x": x, "N": N}, {"y": x.sum(1)}, grid=(M,), block=(64,))


def _prefix_sum(random: torch.Generator, n: int) -> Call:
    x = whole(random, n)
    return Call({"y": torch.empty(n), "x": x, "n": n}, {"y": x.cumsum(0)}, block=(128,))


def _softmax_row(random: torch.Generator, M: int, N: int) -> Call:
    x = torch.randn(M, N, generator=random)
    x[0] += 85  # a float holds such an exponential, and not the sum of many
    x[1:2, 0] -= 85  # nor that of the others less this one
    args = {"y": torch.empty(M, N), "x": x, "N": N}
    return Call(args, {"y": x.double().softmax(1)}, {"y": x.softmax(1)}, grid=(M,), block=(64,))


def _transpose(random: torch.Generator, M: int, N: int) -> Call:
    x = whole(random, M, N)
    args = {"y": torch.empty(N, M), "x": x, "M": M, "N": N}
    return Call(args, {"y": x.T.contiguous()}, grid=(blocks(N, 16), blocks(M, 16)), block=(16, 16))


def _tile(random: torch.Generator, M: int, N: int, K: int) -> Call:
    a, b = whole(random, M, K), whole(random, K, N)
    args = {"y": torch.empty(M, N), "a": a, "b": b, "M": M, "N": N, "K": K}
    return Call(args, {"y": a @ b}, grid=(blocks(N, 16), blocks(M, 16)), block=(16, 16))


_SIZES = {"M": range(17, 60), "N": range(17, 60)}
_ADVICE = "neighbouring threads should {} neighbours"

DRILLS = (
    drill(
        "shared",
        _shared,
        {"even": {"n": 64}, "odd": {"n": 75}},
        {"odd": {"n": range(65, 200)}},
        "y[i] is x[i] minus the element before it in its block",
        {"x itself: nothing was subtracted": lambda x, **_: {"y": x}},
        _loads("x", "x is loaded once"),
        together=True,
        hint="The first thread of a block has no element before it, and subtracts nothing.",
    ),
    drill(
        "dot",
        _dot,
        {"all": {"n": 128}, "few": {"n": 75}},
        {"few": {"n": range(1, 128)}},
        "y[0] is the sum of a[i] × b[i]",
        {
            "the first product alone": lambda a, b, **_: {"y": (a * b)[:1]},
            "the first half": lambda a, b, **_: {"y": (a * b)[:64].sum()[None]},
        },
        counters.at_most(
            "global_load_requests",
            lambda n: 2 * blocks(n, 32),
            name="all threads load",
            advice="let each thread load one element of a and one of b",
        ),
        together=True,
        hint="A thread without an element stores 0, which changes no sum.",
    ),
    drill(
        "axis_sum",
        _axis_sum,
        {"even": {"M": 5, "N": 128}, "odd": {"M": 3, "N": 75}},
        {"odd": {"M": range(2, 6), "N": range(1, 200)}},
        "y[i] is the sum of row i",
        {"the first 64 elements of the row": lambda x, **_: {"y": x[:, :64].sum(1)}},
        counters.fewest_sectors(
            "load", "x", "even", name="x is read in the fewest sectors", advice=_ADVICE.format("read")
        ),
        together=True,
        hint="A row may be longer than the block: a thread's next element lies blockDim.x further.",
    ),
    drill(
        "prefix_sum",
        _prefix_sum,
        {"all": {"n": 128}, "few": {"n": 75}},
        {"few": {"n": range(1, 128)}},
        "y[i] is the sum of x[0] to x[i]",
        {
            "the sum up to x[i − 1]": lambda x, **_: {"y": x.cumsum(0) - x},
            "x[i] + x[i − 1], after one round": lambda x, **_: {"y": x + torch.cat([x.new_zeros(1), x[:-1]])},
        },
        _loads("x", "x is loaded once"),
        together=True,
        hint="In each round: read the element that lies step to the left, wait, add it, wait.",
    ),
    drill(
        "softmax_row",
        _softmax_row,
        {"all": {"M": 3, "N": 64}, "few": {"M": 2, "N": 37}, "one": {"M": 2, "N": 1}},
        {"few": {"M": range(2, 5), "N": range(2, 64)}},
        "y[i, j] is exp(x[i, j]) divided by the sum of its row",
        {
            "exp(x), not divided": lambda x, **_: {"y": x.exp()},
            "a sum that is infinite: subtract the largest of the row first": lambda x, **_: {
                "y": torch.cat([0 * x[:1], x[1:].softmax(1)])
            },
        },
        _loads("x", "x is loaded once"),
        together=True,
        hint="exp(89) is infinite in a float. Subtract the largest of the row first: both change by the same factor.",
    ),
    drill(
        "transpose",
        _transpose,
        {"even": {"M": 32, "N": 48}, "odd": {"M": 37, "N": 21}},
        {"odd": _SIZES},
        "y[j, i] is x[i, j]",
        None,
        counters.fewest_sectors(
            "load", "x", "even", name="x is read in the fewest sectors", advice=_ADVICE.format("read")
        ),
        counters.fewest_sectors(
            "store", "y", "even", name="y is written in the fewest sectors", advice=_ADVICE.format("write")
        ),
        together=True,
        hint="The block at column and row (bx, by) of tiles of x writes the tile at (by, bx) of y.",
    ),
    drill(
        "tile",
        _tile,
        {"even": {"M": 32, "N": 16, "K": 48}, "odd": {"M": 21, "N": 37, "K": 19}},
        {"odd": _SIZES | {"K": range(1, 60)}},
        "y[i, j] is the sum of a[i, k] × b[k, j]",
        {"the last tile alone": lambda a, b, K, **_: {"y": a[:, (K - 1) // 16 * 16 :] @ b[(K - 1) // 16 * 16 :]}},
        _loads("a", "a is loaded once for each tile of a row", lambda N, **_: blocks(N, 16)),
        _loads("b", "b is loaded once for each tile of a column", lambda M, **_: blocks(M, 16)),
        together=True,
        hint="A tile that extends past the edge is filled with 0 there.",
    ),
)
