"""The inputs that layer norm is checked and timed on."""

import torch

from kernels.operation import Case

DTYPES = ("float32", "float16", "bfloat16")
# 1 and 2; below, at and above a warp; primes; a width whose masked lanes matter (768); more than the registers hold.
WIDTHS = (1, 2, 31, 32, 33, 127, 768, 1000, 1024, 4099)

CASES = {
    "edge": (
        *(Case((5, width), dtype) for width in WIDTHS for dtype in DTYPES),
        *(Case((2, 32_768 + 5), dtype) for dtype in DTYPES),
        *(Case((1, 100_000), dtype) for dtype in DTYPES),
        *(Case(shape, dtype) for shape in ((0, 64), (3, 0), (7,), (2, 3, 129)) for dtype in DTYPES),
        *(Case((6, 100), dtype, layout=layout) for layout in ("rows", "transposed") for dtype in DTYPES),
        *(Case((4, 200), dtype, values=values) for values in ("offset", "constant", "nonfinite") for dtype in DTYPES),
        *(Case((4, 96), dtype, params={"eps": 0.1}) for dtype in DTYPES),
        *(Case((4, 96), dtype, params={"weight": None}) for dtype in DTYPES),
        *(Case((4, 96), dtype, params={"weight": None, "bias": None}) for dtype in DTYPES),
    ),
    "model": (
        *(Case((64, 768), dtype) for dtype in DTYPES),
        *(Case((2, 16, 1024), dtype) for dtype in DTYPES),
    ),
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
    elif case.values == "nonfinite":
        x[0, 3], x[-1, 5] = float("nan"), float("inf")
    else:
        raise ValueError(f"values: got {case.values!r}, expected realistic, offset, constant or nonfinite")

    inputs = {"x": _lay_out(tensor(x), case.layout)}
    inputs["weight"] = tensor(1 + 0.2 * normal(width))
    inputs["bias"] = tensor(0.2 * normal(width))
    return inputs | dict(case.params)


def _lay_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values in memory laid out otherwise."""
    if layout == "contiguous":
        return x
    if layout == "rows":
        wider = x.new_full((*x.shape[:-1], x.shape[-1] + 7), float("nan"))
        view = wider[..., 3 : 3 + x.shape[-1]]
        return view.copy_(x)
    if layout == "transposed":
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    raise ValueError(f"layout: got {layout!r}, expected contiguous, rows or transposed")
