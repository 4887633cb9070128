"""The inputs that softmax is checked and timed on."""

from typing import Any

import torch

from kernels.layouts import lay_out
from kernels.operation import Case

DTYPES = ("float32", "float16", "bfloat16")
# 1 and 2; about a 16-byte vector and a warp; primes; more than a program keeps; more than a block takes alone.
WIDTHS = (1, 2, 7, 8, 9, 31, 32, 33, 127, 768, 1000, 1024, 4099, 9000)
# Of the normal random numbers, a factor and an offset. Realistic rows have probabilities that are not small, as logits do.
VALUES = {"realistic": (4, 0.5), "offset": (4, 300), "constant": (0, 3), "large": (100, 0), "small": (0.01, 0)}
VALUES |= {"nonfinite": (1, 0), "masked": (1, 0)}


def each(*shapes: tuple[int, ...], **fields: Any) -> tuple[Case, ...]:
    return tuple(Case(shape, dtype, **fields) for shape in shapes for dtype in DTYPES)


CASES = {
    "edge": (
        *each(*((5, width) for width in WIDTHS), (2, 32_768 + 5), (1, 100_000), (257, 33)),
        *each((0, 64), (3, 0), (7,), (2, 3, 129), (2, 3, 2, 40)),
        *(case for layout in ("rows", "transposed", "expanded") for case in each((6, 100), layout=layout)),
        *(case for layout in ("sliced", "transposed") for case in each((3, 5, 48), layout=layout)),
        *(case for values in VALUES for case in each((4, 200), values=values)),
        *(case for values in ("nonfinite", "masked", "large") for case in each((3, 9_001), values=values)),
    ),
    "model": each((2, 4, 16, 64), (64, 1_000)),
    "repeated": (Case((300, 40)), Case((9, 9_000))),
    "huge": tuple(Case((2**31 // width + 5, width), "bfloat16") for width in (64, 4_096, 32_768)),
    "bench": tuple(
        Case(shape, "bfloat16")
        for shape in ((32_768, 1_024), (32_768, 4_096), (32_768, 8_192), (8_192, 32_768), (2_048, 131_072))
    ),
}


def make_inputs(case: Case, device: str) -> dict[str, torch.Tensor]:
    """x with a mean and outliers, rounded; made on the device that uses it, since a GPU has other random numbers."""
    if case.values not in VALUES:
        raise ValueError(f"values: got {case.values!r}, expected one of {', '.join(VALUES)}")
    random = torch.Generator(device).manual_seed(case.seed)
    dtype, (factor, offset) = getattr(torch, case.dtype), VALUES[case.values]
    x = factor * torch.randn(case.shape, generator=random, device=device) + offset
    if case.values == "realistic":
        x = torch.where(torch.rand(case.shape, generator=random, device=device) < 1e-3, x + 8, x)
    elif case.values == "nonfinite":
        x[0, 3], x[-1, 5] = float("nan"), float("inf")
    elif case.values == "masked":
        # As attention has it: some of a row, most of a row, all of a row, and all of one by the lowest number instead.
        x[..., ::3], x[-1, 1:], x[0], x[1] = float("-inf"), float("-inf"), float("-inf"), torch.finfo(dtype).min
    return {"x": lay_out(x.to(dtype), case.layout)}
