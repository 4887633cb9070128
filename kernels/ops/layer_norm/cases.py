"""The inputs that layer norm is checked and timed on."""

import math

import torch

from kernels.layouts import lay_out
from kernels.machine import Machine
from kernels.operation import Case

DTYPES = ("float32", "float16", "bfloat16")
# 1 and 2; below, at and above a warp; primes; a width whose masked lanes matter (768); more than the registers hold.
WIDTHS = (1, 2, 31, 32, 33, 127, 768, 1000, 1024, 4099)
UNUSUAL = ("offset", "constant", "nonfinite", "large", "small")
MOST_ATOMICS = 128

CASES = {
    "edge": (
        *(Case((5, width), dtype) for width in WIDTHS for dtype in DTYPES),
        *(Case((2, 32_768 + 5), dtype) for dtype in DTYPES),
        *(Case((1, 100_000), dtype) for dtype in DTYPES),
        *(Case(shape, dtype) for shape in ((0, 64), (3, 0), (7,), (2, 3, 129), (2, 3, 2, 40)) for dtype in DTYPES),
        *(Case((257, 33), dtype) for dtype in DTYPES),
        *(Case((6, 100), dtype, layout=layout) for layout in ("rows", "transposed", "expanded") for dtype in DTYPES),
        *(Case((3, 5, 48), dtype, layout=layout) for layout in ("sliced", "transposed") for dtype in DTYPES),
        *(Case((4, 200), dtype, values=values) for values in UNUSUAL for dtype in DTYPES),
        *(Case((4, 96), dtype, params={"eps": 0.1}) for dtype in DTYPES),
        *(Case((3, 1000), dtype, params={"eps": 1e-2}) for dtype in DTYPES),
        *(Case((4, 96), dtype, params={"weight": None}) for dtype in DTYPES),
        *(Case((4, 96), dtype, params={"bias": None}) for dtype in DTYPES),
        *(Case((4, 96), dtype, params={"weight": None, "bias": None}) for dtype in DTYPES),
    ),
    "model": (
        *(Case((64, 768), dtype) for dtype in DTYPES),
        *(Case((2, 16, 1024), dtype) for dtype in DTYPES),
    ),
    "repeated": (Case((300, 40)), Case((9, 9_000))),
    "huge": tuple(Case((2**31 // width + 5, width), "bfloat16") for width in (64, 4_096, 32_768)),
    "bench": tuple(
        Case(shape, "bfloat16") for shape in ((32_768, 1_024), (32_768, 4_096), (32_768, 8_192), (8_192, 32_768))
    ),
}


def make_inputs(case: Case, device: str) -> dict[str, torch.Tensor]:
    """x with a mean and outliers, weight around 1, bias around 0; the case's params replace or join them.

    Made on the device that uses them (a GPU's random numbers differ from a CPU's), then rounded to the dtype.
    """
    random = torch.Generator(device).manual_seed(case.seed)
    dtype = getattr(torch, case.dtype)
    width = case.shape[-1]

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=random, device=device)

    def tensor(values: torch.Tensor) -> torch.Tensor:
        return values.to(dtype)

    x = normal(*case.shape)
    if case.values == "realistic":
        # A mean, and one value in a thousand 20 times as large, as activations of language models have them.
        x = torch.where(torch.rand(case.shape, generator=random, device=device) < 1e-3, 20 * x, x) + 0.5
    elif case.values == "offset":
        x = x + 300
    elif case.values == "constant":
        x = torch.full_like(x, 3.0)
    elif case.values == "large":
        x = 100 * x
    elif case.values == "small":
        x = 0.01 * x
    elif case.values == "nonfinite":
        x[0, 3], x[-1, 5] = float("nan"), float("inf")
    else:
        raise ValueError(
            f"values: got {case.values!r}, expected realistic, offset, constant, large, small or nonfinite"
        )

    inputs = {"x": lay_out(tensor(x), case.layout)}
    inputs["weight"] = tensor(1 + 0.2 * normal(width))
    inputs["bias"] = tensor(0.2 * normal(width))
    if case.layout in ("rows", "transposed"):
        # Every second element of a longer vector, and one that does not start where its allocation does.
        inputs["weight"] = inputs["weight"].repeat_interleave(2)[::2]
        inputs["bias"] = torch.cat([inputs["bias"][:1], inputs["bias"]])[1:]
    return inputs | dict(case.params)


def too_many_atomics(case: Case, machine: Machine) -> str | None:
    """Why sums over the rows by atomic additions are not accurate enough on a case, if they are not."""
    if case.dtype == "float32" and math.prod(case.shape[:-1]) > MOST_ATOMICS:
        return f"in float32, more than {MOST_ATOMICS} atomic additions in an order left to chance round too much"
    return None
