"""The inputs that a histogram is checked and timed on."""

from typing import Any

import torch

from kernels.layouts import lay_out
from kernels.operation import Case
from kernels.row_cases import generator

BINS = 100
WIDEST_PRIVATE, FIRST_NOT_PRIVATE = {"bins": 12_288}, {"bins": 12_289}  # of int counts in 48 KiB


def each(*shapes: tuple[int, ...], dtypes: tuple[str, ...] = ("int64", "int32", "uint8"), **fields: Any) -> tuple:
    return tuple(Case(shape, dtype, **fields) for shape in shapes for dtype in dtypes)


CASES: dict[str, tuple[Case, ...]] = {
    "edge": (
        *each(*((n,) for n in (1, 31, 33, 257, 1_000, 4_099, 50_003)), (0, 64), (3, 0), (5, 77), (2, 3, 129)),
        *(case for layout in ("rows", "transposed", "expanded") for case in each((6, 100), layout=layout)),
        *(case for layout in ("sliced", "transposed") for case in each((3, 5, 48), layout=layout)),
        *each((4, 2_000), values="one"),
        *each((3, 700), values="uniform"),
        *(case for bins in (1, 2, 33, 256) for case in each((4, 300), params={"bins": bins})),
        *(
            case
            for params in (WIDEST_PRIVATE, FIRST_NOT_PRIVATE, {"bins": 50_257})
            for case in each((4, 900), dtypes=("int64", "int32"), params=params)
        ),
    ),
    "model": (
        *each((64, 768), params={"bins": 256}),
        *each((2, 16, 512), dtypes=("int64", "int32"), params={"bins": 32_000}),
    ),
    "repeated": (Case((300, 40), "int32"),),
    "huge": (Case((2**31 // 4_096 + 5, 4_096), "uint8", params={"bins": 256}),),
    "bench": (
        Case((8_192, 8_192), "uint8", params={"bins": 256}),
        Case((8_192, 8_192), "int32", params={"bins": 256}),
        Case((8_192, 8_192), "int32", values="one", params={"bins": 256}),
        Case((8_192, 8_192), "int64", params={"bins": 128_256}),
    ),
}


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    """Values that come as often as words do, the first most: a random number is squared. "uniform" has all as often, "one" the
    last alone, for which all atomics wait."""
    params: dict[str, Any] = {"bins": BINS} | dict(case.params)
    random = generator(case, device)
    values = torch.rand(case.shape, generator=random, device=device)
    if case.values == "realistic":
        values = values.square()
    elif case.values == "one":
        values.fill_(1)
    x = (values * params["bins"]).long().clamp(max=params["bins"] - 1)
    return {"x": lay_out(x.to(getattr(torch, case.dtype)), case.layout)} | params
