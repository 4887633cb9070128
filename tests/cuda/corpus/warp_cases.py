"""Cooperative groups and grids, votes, matches and reductions of a warp."""

import functools
import operator

import torch
from torch import randint, randn, zeros

from corpus.case import Case, blank


def int32(values):
    return torch.tensor([value - 2**32 if value >= 2**31 else value for value in values], dtype=torch.int32)


def summaries(x):
    rows = x.tolist()
    return {
        "sum": int32([sum(row) % 2**32 for row in rows]),
        "low": int32([min(row) for row in rows]),
        "high": int32([max(row) for row in rows]),
        "bits": int32([functools.reduce(operator.xor, row) for row in rows]),
    }


def votes(x):
    padded = torch.cat([x, torch.ones(184, dtype=x.dtype)]).view(4, 96)
    columns = ((padded % 2 == 0).sum(1), (padded > 0).all(1), (padded > 95).any(1), torch.full((4,), 96))
    return {"votes": torch.stack(columns, 1).int()}


def branch(x):
    lanes = torch.nn.functional.pad((x < 0), (0, 20)).view(-1, 32)
    return {"lanes": lanes.sum(1, keepdim=True).expand(-1, 32).reshape(-1)[:300].int()}


def tile_scans(x):
    tiles = x.view(-1, 16)
    inclusive = tiles.cumsum(1)
    return {
        "inclusive": inclusive.view(-1).int(),
        "exclusive": (inclusive - tiles).view(-1).int(),
        "largest": tiles.amax(1, keepdim=True).expand(-1, 16).reshape(-1),
    }


def filtered(module, a):
    module.get_function("filter_positive")((4,), (256,), (a["out"], a["count"], a["x"], a["n"]))
    found = a["out"][: int(a["count"])]
    found.copy_(found.sort().values)  # the order is not fixed


def positive(x):
    kept = x[x > 0].sort().values
    return {"out": torch.cat([kept, zeros(len(x) - len(kept)) - 1]), "count": torch.tensor([len(kept)]).int()}


def layer_norm(x, weight, bias):
    mean, rstd = x.mean(1), (x.var(1, correction=0) + 1e-5).rsqrt()
    return {"out": (x - mean[:, None]) * rstd[:, None] * weight + bias, "mean": mean, "rstd": rstd}


def diffused(a):
    for _ in range(6):
        a = 0.5 * a + 0.25 * (a.roll(-1) + a.roll(1))
    return {"a": a}


def ints(*shape):
    return blank(*shape, dtype=torch.int32)


CASES = (
    Case(
        "cooperative.cu",
        "sum_kernel_block",
        lambda: {"sum": zeros(1).int(), "x": randint(-99, 999, (3001,)).int(), "n": 3001},
        lambda x: {"sum": x.sum()[None].int()},
        grid=(4,),
        block=(128,),
        shared_mem=512,
    ),
    *(
        Case(
            "cooperative.cu",
            f"tile_means<{size}>",
            lambda size=size: {"x": randn(5 * 64 + size), "out": blank(320 // size + 1), "n": 320 + size},
            lambda x, size=size: {"out": x.view(-1, size).mean(1)},
            grid=(6,),
            block=(64,),
        )
        for size in (4, 32)
    ),
    Case(
        "cooperative.cu",
        "filter_positive",
        lambda: {"out": zeros(1000) - 1, "count": zeros(1).int(), "x": randn(1000), "n": 1000},
        positive,
        launch=filtered,
    ),
    Case(
        "cooperative.cu",
        "layernorm_forward_cg",
        lambda: (
            {"out": blank(11, 75), "mean": blank(11), "rstd": blank(11), "x": randn(11, 75) + 1}
            | {"weight": randn(75), "bias": randn(75), "n": 11, "c": 75}
        ),
        layer_norm,
        grid=(3,),
        block=(128,),
    ),
    Case(
        "cooperative.cu",
        "tile_scans",
        lambda: {
            "x": randint(1, 99, (192,)).int(),
            "inclusive": ints(192),
            "exclusive": ints(192),
            "largest": ints(192),
        },
        tile_scans,
        grid=(2,),
        block=(96,),
    ),
    Case(
        "cooperative.cu",
        "count_by_key",
        lambda: {"keys": randint(0, 9, (1000,)).int(), "counts": zeros(9).int(), "n": 1000},
        lambda keys: {"counts": torch.bincount(keys, minlength=9).int()},
        grid=(3,),
        block=(128,),
    ),
    Case(
        "grid.cu",
        "mean_and_deviation",
        lambda: {"x": randn(3001) * 2 + 3, "partial": blank(5).double(), "result": blank(2).double(), "n": 3001},
        lambda x: {"result": torch.stack([x.mean(), x.std()])},
        grid=(5,),
        block=(128,),
    ),
    Case(
        "grid.cu",
        "diffuse",
        lambda: {"a": randn(1003), "b": blank(1003), "n": 1003, "steps": 6},
        diffused,
        grid=(4,),
        block=(64,),
    ),
    Case(
        "warp_votes.cu",
        "match_histogram",
        lambda: {"keys": randint(0, 9, (1000,)).int(), "bins": zeros(9).int(), "n": 1000},
        lambda keys: {"bins": torch.bincount(keys, minlength=9).int()},
        grid=(8,),
        block=(128,),
    ),
    Case(
        "warp_votes.cu",
        "warp_summary",
        lambda: (
            {"x": randint(0, 2**31 - 1, (5, 32)).int(), "sum": ints(5), "low": ints(5), "high": ints(5)}
            | {"bits": ints(5)}
        ),
        summaries,
        grid=(5,),
        block=(32,),
    ),
    Case(
        "warp_votes.cu",
        "block_votes",
        lambda: {"x": randint(0, 100, (200,)).int(), "votes": ints(4, 4), "n": 200},
        votes,
        grid=(4,),
        block=(96,),
    ),
    Case(
        "warp_votes.cu",
        "branch_population",
        lambda: {"x": randn(300), "lanes": ints(300), "n": 300},
        branch,
        grid=(5,),
        block=(64,),
    ),
    Case(
        "warp_votes.cu",
        "warp_transpose",
        lambda: {"x": randn(12, 8, 8), "out": blank(12, 8, 8)},
        lambda x: {"out": x.transpose(1, 2)},
        grid=(2,),
        block=(48,),
    ),
)
