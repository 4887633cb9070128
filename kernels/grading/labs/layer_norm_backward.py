"""The backward of layer norm: dx by sums along rows, dweight and dbias by each program's partial sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import triton

from kernels.grading import properties
from kernels.grading.exercise import Call, Exercise
from kernels.grading.properties import known_mistakes, launches, load_balance, scratch_memory
from kernels.grading.properties.rounding import rounded_once
from kernels.grading.python import devices, triton_compile

Gradients = dict[str, torch.Tensor]


class _Parts(NamedTuple):
    """What the gradients are made of: M×N, and one a row (M×1)."""

    dy: torch.Tensor
    x: torch.Tensor
    centred: torch.Tensor
    rstd: torch.Tensor
    n: torch.Tensor
    g: torch.Tensor
    mean_g: torch.Tensor
    mean_gn: torch.Tensor


def _mean(values: torch.Tensor) -> torch.Tensor:
    return values.mean(-1, keepdim=True)


def _one_by_one(values: torch.Tensor) -> torch.Tensor:
    """The mean, of a sum that goes from one element to the next: of all orders, the one with the most rounding."""
    return torch.from_numpy(np.add.accumulate(values.numpy(), axis=-1)[:, -1:]) / values.shape[-1]


def _parts(
    dy: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    mean: Callable[[torch.Tensor], torch.Tensor] = _mean,
    off: float = 0.0,
    spare: bool = False,
    outside: bool = False,
    padded: Sequence[str] = (),
) -> _Parts:
    """off: of every mean, in parts of it. spare: with lanes beyond the row, which hold -mean, in the variance.
    outside: eps is added to the root. padded: the means that are divided by BLOCK_N."""
    N = x.shape[-1]
    lanes = triton.next_power_of_2(N)

    def of(name: str, values: torch.Tensor) -> torch.Tensor:
        return mean(values) * (N / lanes if name in padded else 1)

    mean_x = of("x", x) * (1 + off)
    centred = x - mean_x
    variance = of("variance", centred.square())
    if spare:
        variance = variance + (lanes - N) / N * mean_x.square()
    rstd = 1 / (variance.sqrt() + eps if outside else (variance + eps).sqrt())
    n, g = centred * rstd, dy * weight
    return _Parts(dy, x, centred, rstd, n, g, of("g", g), of("gn", g * n))


def _gradients(of: _Parts) -> Gradients:
    dx = of.rstd * (of.g - of.mean_g - of.n * of.mean_gn)
    return {"dx": dx, "dweight": (of.dy * of.n).sum(0), "dbias": of.dy.sum(0)}


def _call(
    random: torch.Generator,
    M: int,
    N: int,
    eps: float = 1e-5,
    mean: float = 3.0,
    dtype: str = "float32",
    size: float = 1.0,
) -> Call:
    """size: of every tensor's values."""
    to = getattr(torch, dtype)
    dy, x = torch.randn(2, M, N, generator=random)
    weight = 1 + 0.5 * torch.randn(N, generator=random)
    dy, x, weight = (size * dy).to(to), (size * (x + mean)).to(to), (size * weight).to(to)
    exact = dy.double(), x.double(), weight.double(), eps
    # What the order of a sum costs: a row added up one by one, a mean a few roundings off, felt where it is large, and a dbias
    # added up row by row.
    rounding = torch.finfo(torch.float32).eps
    baseline = _gradients(_parts(dy.float(), x.float(), weight.float(), eps, _one_by_one, off=32 * rounding))
    baseline |= {"dbias": sum(dy.float())}
    return Call(
        {"dy": dy, "x": x, "weight": weight, "eps": eps},
        expected=_gradients(_parts(*exact)),
        baseline={name: one.to(to) for name, one in baseline.items()},
    )


def _like(name: str, values: Callable[[_Parts], torch.Tensor]) -> Callable[..., Gradients]:
    """A gradient by a wrong formula."""
    return lambda **args: {name: values(_parts(**args))}


def _everywhere(**mistaken: Any) -> Callable[..., Gradients]:
    return lambda **args: _gradients(_parts(**args, **mistaken))


_ANY = {
    "the formula without eps": lambda eps, **args: _gradients(_parts(**args, eps=0.0)),
    "eps added to the root, not to the variance": _everywhere(outside=True),
    "the formula without weight": lambda weight, **args: _gradients(_parts(**args, weight=torch.ones_like(weight))),
}
_DWEIGHT = {
    "dy · x, summed: x is not normalised": _like("dweight", lambda of: (of.dy * of.x).sum(0)),
    "dy · (x - mean), summed: without rstd": _like("dweight", lambda of: (of.dy * of.centred).sum(0)),
    "g · n, summed: dy already has its weight": _like("dweight", lambda of: (of.g * of.n).sum(0)),
}
_DBIAS = {
    "g, summed: dbias does not depend on weight": _like("dbias", lambda of: of.g.sum(0)),
    "dy · n, summed, which is dweight": _like("dbias", lambda of: (of.dy * of.n).sum(0)),
}
_DX = {
    "the formula without rstd": _like("dx", lambda of: of.g - of.mean_g - of.n * of.mean_gn),
    "the formula without the mean of g": _like("dx", lambda of: of.rstd * (of.g - of.n * of.mean_gn)),
    "the formula without the mean of g · n": _like("dx", lambda of: of.rstd * (of.g - of.mean_g)),
    "the formula with the mean of g · n, not multiplied by n": _like(
        "dx", lambda of: of.rstd * (of.g - of.mean_g - of.mean_gn)
    ),
    "the formula with sums in place of means": _like(
        "dx", lambda of: of.rstd * (of.g - of.x.shape[-1] * (of.mean_g + of.n * of.mean_gn))
    ),
}
_SPARE = {
    "lanes beyond the row in the variance: after x - mean they hold -mean, not 0": _everywhere(spare=True),
    "a division by BLOCK_N in the mean of x: a row has N elements": _everywhere(padded=("x",)),
    "a division by BLOCK_N in the variance: a row has N elements": _everywhere(padded=("variance",)),
    "a division by BLOCK_N in the mean of x and in the variance": _everywhere(padded=("x", "variance")),
    "a division by BLOCK_N in the mean of g: a row has N elements": _everywhere(padded=("g",)),
    "a division by BLOCK_N in the mean of g · n: a row has N elements": _everywhere(padded=("gn",)),
    "a division by BLOCK_N in the means of g and of g · n": _everywhere(padded=("g", "gn")),
    "a division by BLOCK_N in place of N": _everywhere(padded=("x", "variance", "g", "gn")),
}


_all_right = partial(known_mistakes.right, "dbias", "dweight", "dx")
_ROWS = "Program p takes rows p, p + programs, p + 2 · programs and so on, as long as they are below M."

EXERCISES = (
    Exercise(
        name="layer_norm_backward",
        language="triton",
        call=_call,
        cases={
            "even": {"M": 96, "N": 128, "eps": 0.1, "mean": 0.5},
            "rows": {"M": 11, "N": 64},
            "few": {"M": 3, "N": 64},
            "again": {"M": 3, "N": 64},
            "mean": {"M": 8, "N": 128, "mean": 1000.0},
            "lanes": {"M": 8, "N": 100},
            "narrow": {"M": 8, "N": 7},
            "wide": {"M": 3, "N": 8200},
            "wider": {"M": 2, "N": 20_000},
            "float16": {"M": 64, "N": 96, "dtype": "float16", "size": 200.0},
            "bfloat16": {"M": 64, "N": 96, "dtype": "bfloat16"},
        },
        drawn={
            "even": {"M": range(97, 129), "N": range(64, 257, 8)},
            "rows": {"M": range(9, 200)},
            "lanes": {"M": range(1, 33), "N": range(65, 128)},
            "narrow": {"N": range(5, 16)},
            "wide": {"N": range(1025, 5000)},
        },
        properties=(
            properties.stays_inside(
                hint="A row has N elements and BLOCK_N lanes, and the last rows of some programs may not be there."
            ),
            triton_compile.finishes(),
            triton_compile.compiles(),
            devices.together(),
            properties.inputs_unchanged(),
            known_mistakes.right(
                "dbias",
                cases=["even"],
                first=True,
                name="dbias is the sum of dy over all rows",
                likes=_DBIAS,
                hint="Add a row of dy in every round. Each of the programs stores its sums in a row of its own, at program * N "
                "+ columns: the sum over programs is NaN as long as one of them was never written.",
            ),
            known_mistakes.right(
                "dweight",
                cases=["even"],
                first=True,
                name="dweight is the sum of dy · n over all rows",
                likes=_DWEIGHT | _ANY,
                hint="n is the normalised row: (x - mean) · rstd, with rstd = 1 / √(variance + eps).",
            ),
            known_mistakes.right(
                "dx",
                cases=["even"],
                first=True,
                name="dx is rstd · (g - mean of g - n · mean of g · n)",
                likes=_DX | _ANY,
                hint="Three terms in the bracket. Both means are taken over the row, of g = dy · weight and of g · n.",
            ),
            replace(
                launches.written("rows", name="every row is handled, however many there are", hint=_ROWS),
                stage="right",
            ),
            _all_right(
                cases=["rows", "few"],
                name="any number of rows, even fewer than programs",
                likes={},
                hint="A program without a row has sums, too: zeros. They are added up with the others.",
            ),
            _all_right(
                cases=["mean"],
                name="stable where a row's mean is large",
                likes={},
                hint="The variance is the mean of the squares of x - mean. The mean of the squares minus the "
                "square of the mean "
                "is a small difference of large numbers.",
            ),
            _all_right(
                cases=["lanes"],
                name="lanes beyond the row stay out of its sums",
                likes=_SPARE,
                hint="other=0.0 says what spare lanes hold when they are loaded. And after the mean was subtracted?",
            ),
            _all_right(cases=["narrow", "wide", "wider"], name="narrow rows and wide ones", likes=_SPARE),
            _all_right(cases=["again"], name="also for other values in the same shape", likes={}),
            _all_right(
                cases=["float16", "bfloat16"],
                name="also in float16 and bfloat16",
                likes={},
                hint="Convert what is loaded to float32: dy · weight may be beyond 65,504. The gradients have the dtype of x "
                "in the end.",
            ),
            properties.without(
                "race",
                name="no program depends on another",
                stage="right",
                hint="Programs run in any order on a GPU, and at the same time. Leave the sums over programs to "
                "another launch, or to PyTorch.",
            ),
            launches.no_atomics(
                name="no atomic additions: the same bits every time",
                hint="A program has a row of its own in dweight_ptr and in dbias_ptr.",
            ),
            launches.read_once(
                "dy",
                "x",
                cases=["even"],
                name="dy and x are read once",
                advice="both kinds of sums can be taken while a row is in registers",
            ),
            launches.written_once(
                "dx", cases=["even"], name="dx is written once", advice="compute in variables, and store the result"
            ),
            launches.partial_sums_once(
                name="each program writes its partial sums once",
                hint="Keep both sums in variables, and store them when the loop has ended.",
            ),
            launches.few_other_operators(
                "even",
                name="PyTorch adds up nothing but the partial sums",
                hint="The kernel has dy in registers already.",
            ),
            launches.sums_in_float32(
                "float16",
                "bfloat16",
                name="the partial sums are float32 until they are added up",
                hint="dweight_ptr and dbias_ptr are float32. The sum over programs is taken first, then .to(x.dtype).",
            ),
            replace(
                rounded_once(
                    "dweight",
                    "float16",
                    "bfloat16",
                    name="dweight: rounded once",
                    hint="The normalised row stays float32 until the sum over all rows is taken.",
                ),
                stage="costs",
            ),
            load_balance.balanced("x", name="the programs share the rows", least=8, hint=_ROWS),
            scratch_memory.no_scratch_memory(
                "even",
                name="no copies of dy and x",
                advice="only the partial sums of a few programs come back",
                most=lambda trial: trial.call.args["x"].nbytes // 2,
            ),
        ),
        prelude="import torch, triton, triton.language as tl",
        seconds=60,
    ),
)
