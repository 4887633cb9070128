"""The inputs that a projection and its cross-entropy are checked and timed on. A case's shape is that of x, (..., K)."""

from dataclasses import replace
from typing import Any

import torch

from kernels.operation import Case
from kernels.row_cases import each, generator, rows

SETTINGS = ({"label_smoothing": 0.1}, {"z_loss": 1e-3}, {"ignore_index": 2, "label_smoothing": 0.2, "z_loss": 1e-2})


def of(*shapes: tuple[int, ...], classes: int, **fields: Any) -> tuple[Case, ...]:
    return each(*shapes, sizes={"classes": classes}, **fields)


# 66 rows of each layout: of fewer losses the baseline's own error may be small by chance.
CASES: dict[str, tuple[Case, ...]] = {
    "edge": (
        *of((1, 1), (5, 7), (33, 16), (70, 5), (7,), (2, 3, 9), (0, 8), classes=1),
        *of((5, 7), (33, 16), (70, 5), (12,), (2, 3, 9), (0, 8), classes=37),
        *of((3, 40), (35, 24), classes=2_050),
        *(case for params in SETTINGS for case in of((2, 3, 6), (40, 8), classes=33, params=params)),
        *(case for layout in ("rows", "transposed", "expanded") for case in of((66, 24), classes=50, layout=layout)),
        *(case for values in ("small", "large", "offset") for case in of((4, 48), classes=40, values=values)),
    ),
    "model": (*of((64, 32), classes=1_000), *of((2, 6, 48), classes=300)),
    "repeated": (Case((300, 16), sizes={"classes": 500}),),
    "huge": (Case((2**31 // 4_096 + 5, 4_096), "bfloat16", sizes={"classes": 500}),),
    "bench": (
        Case((8_192, 4_096), "bfloat16", sizes={"classes": 128_256}),
        Case((16_384, 2_048), "bfloat16", sizes={"classes": 32_000}),
    ),
}


def few(case: Case, rows: int) -> Case:
    """Of as many classes: kernels see no K."""
    return replace(case, shape=(min(case.shape[0], rows), *case.shape[1:-1], min(case.shape[-1], 64)))


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    """Weights that give logits spread by about 3, and targets of which a sixth is ignored."""
    random, K, classes = generator(case, device), case.shape[-1], case.sizes.get("classes", 10)
    x = rows(case, random, outlier=lambda normal: 4 * normal)
    weight = (torch.randn(classes, K, generator=random, device=device) * 3 / K**0.5).to(x.dtype)
    target = torch.randint(0, classes, case.shape[:-1], generator=random, device=device)
    dropped = torch.rand(case.shape[:-1], generator=random, device=device) < 1 / 6
    target = target.masked_fill(dropped, dict[str, Any](case.params).get("ignore_index", -100))
    if case.layout != "contiguous":  # classes are neighbours in memory
        weight = weight.T.contiguous().T
    return {"x": x, "weight": weight, "target": target} | dict(case.params)
