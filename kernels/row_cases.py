"""What operations on the rows of a matrix are tried on: the cases at which kernels break, and values with outliers."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from kernels.case import Case
from kernels.layouts import lay_out

DTYPES = ("float32", "float16", "bfloat16")
# 1 and 2; below, at and above a warp; primes; a width whose masked lanes matter (768); more than the registers hold.
WIDTHS = (1, 2, 31, 32, 33, 127, 768, 1000, 1024, 4099)
VALUES = ("offset", "constant", "nonfinite", "large", "small")
# Of a second tensor, by the layout of the first: never the strides of one that is not contiguous, so that a kernel which takes
# the one's for the other's is found.
BESIDE = {"contiguous": "contiguous", "rows": "contiguous", "transposed": "rows", "expanded": "rows", "sliced": "rows"}


def each(*shapes: tuple[int, ...], **fields: Any) -> tuple[Case, ...]:
    """A case for each shape and dtype, with these fields of a Case."""
    return tuple(Case(shape, dtype, **fields) for shape in shapes for dtype in DTYPES)


EPS = (*each((4, 96), params={"eps": 0.1}), *each((3, 1000), params={"eps": 1e-2}))
"""Edge cases of norms, whose eps shows."""


def row_cases(
    widths: Sequence[int] = WIDTHS,
    values: Sequence[str] = VALUES,
    model: Sequence[Case] = each((64, 768), (2, 16, 1024)),
    edge: Sequence[Case] = (),
    bench: Sequence[tuple[int, ...]] = (),
) -> dict[str, tuple[Case, ...]]:
    """The cases of an operation over the last dimension, by kind.

    Args:
        widths: of rows, where kernels of it change their ways.
        values: other than "realistic" ones; see `rows`.
        model: the cases of models.
        edge: cases that it alone has, such as those of its params.
        bench: shapes that it alone is timed on.
    """
    return {
        "edge": (
            *each(*((5, width) for width in widths), (2, 32_768 + 5), (1, 100_000)),
            *each((0, 64), (3, 0), (7,), (2, 3, 129), (2, 3, 2, 40), (257, 33)),
            *(case for layout in ("rows", "transposed", "expanded") for case in each((6, 100), layout=layout)),
            *(case for layout in ("sliced", "transposed") for case in each((3, 5, 48), layout=layout)),
            *(case for name in values for case in each((4, 200), values=name)),
            *edge,
        ),
        "model": tuple(model),
        "repeated": (Case((300, 40)), Case((9, 9_000))),
        "huge": tuple(Case((2**31 // width + 5, width), "bfloat16") for width in (64, 4_096, 32_768)),
        "bench": tuple(
            Case(shape, "bfloat16")
            for shape in ((32_768, 1_024), (32_768, 4_096), (32_768, 8_192), (8_192, 32_768), *bench)
        ),
    }


def generator(case: Case, device: str) -> torch.Generator:
    """The random numbers of a case, made on the device that uses them: a GPU's differ from a CPU's."""
    return torch.Generator(device).manual_seed(case.seed)


def rows(
    case: Case,
    random: torch.Generator,
    spread: float = 1,
    outlier: Callable[[torch.Tensor], torch.Tensor] = lambda normal: 20 * normal + 0.5,
) -> torch.Tensor:
    """A tensor of the case's shape, dtype and layout, with the values that it names.

    Realistic values have a mean, and one in a thousand is an outlier, as in activations of language models.

    Args:
        spread: the standard deviation of realistic values, and of those with an offset.
        outlier: what takes the place of a realistic value, of the normal random number behind it.

    Raises:
        ValueError: the case's values have no such name.
    """
    # Of the normal random numbers, a factor and an offset.
    known = {"realistic": (spread, 0.5), "offset": (spread, 300), "constant": (0, 3), "large": (100, 0)}
    known |= {"small": (0.01, 0), "nonfinite": (1, 0), "masked": (1, 0)}
    if case.values not in known:
        raise ValueError(f"values: got {case.values!r}, expected one of {', '.join(known)}")
    dtype, (factor, offset) = getattr(torch, case.dtype), known[case.values]
    normal = torch.randn(case.shape, generator=random, device=random.device)
    x = factor * normal + offset
    if case.values == "realistic":
        few = torch.rand(case.shape, generator=random, device=random.device) < 1e-3
        x = torch.where(few, outlier(normal), x)
    elif case.values == "offset":
        x = _with_exact_mean(x, offset, dtype)
    elif case.values == "nonfinite":
        x[0, 3], x[-1, 5] = float("nan"), float("inf")
    elif case.values == "masked":
        # As attention has it: some of a row, most of a row, all of a row, and all of one by the lowest number instead.
        x[..., ::3], x[-1, 1:], x[0], x[1] = float("-inf"), float("-inf"), float("-inf"), torch.finfo(dtype).min
    return lay_out(x.to(dtype), case.layout)


def _with_exact_mean(x: torch.Tensor, mean: float, dtype: torch.dtype) -> torch.Tensor:
    """The values of each row on a grid, and the second half of it the first one mirrored at the mean.

    So float32 has the sum of a row exactly, in any order, and every dtype its mean. Otherwise the rounding of the mean, which
    depends on that order, would be most of a norm's error: luck would decide whether a right kernel passes.
    """
    grid = max(1 / 128, torch.finfo(dtype).eps * 2 ** math.floor(math.log2(mean)))
    half = x.shape[-1] // 2
    x = (x / grid).round() * grid
    x[..., half:] = mean
    x[..., half : 2 * half] = 2 * mean - x[..., :half]
    return x


def x_alone(case: Case, device: str) -> dict[str, Any]:
    """The inputs of an operation of one tensor, x, and the params of the case."""
    return {"x": rows(case, generator(case, device))} | dict(case.params)


def beside(case: Case, device: str, **fields: Any) -> torch.Tensor:
    """A second tensor of the case's shape, with other random numbers and other strides, and with these fields of a Case."""
    other = replace(case, seed=case.seed + 1_000, layout=BESIDE[case.layout], **fields)
    return rows(other, generator(other, device))


def vector(case: Case, random: torch.Generator, mean: float) -> torch.Tensor:
    """Of the case's dtype, shape (N,), for N columns, around `mean`: a weight, say."""
    normal = torch.randn(case.shape[-1], generator=random, device=random.device)
    return (mean + 0.2 * normal).to(getattr(torch, case.dtype))


def strided(vector: torch.Tensor, case: Case) -> torch.Tensor:
    """The vector as it is; where the case's rows are not contiguous, every second element of a longer one."""
    return vector.repeat_interleave(2)[::2] if case.layout in ("rows", "transposed") else vector
