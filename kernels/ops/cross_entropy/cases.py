"""The inputs that cross-entropy is checked and timed on."""

from dataclasses import replace
from typing import Any

import torch

from kernels.layouts import lay_out
from kernels.operation import Case
from kernels.row_cases import VALUES, each, generator, row_cases, rows

SETTINGS = ({"label_smoothing": 0.1}, {"z_loss": 1e-3}, {"ignore_index": 2, "label_smoothing": 0.2, "z_loss": 1e-2})
FOUND = row_cases(
    values=(*VALUES, "masked"),
    model=each((64, 1_000), (2, 16, 512)),
    edge=tuple(case for params in SETTINGS for case in each((2, 3, 7), (5, 1_030), (4, 9_001), params=params)),
)
# Without columns there are no classes.
CASES: dict[str, tuple[Case, ...]] = {
    kind: tuple(case for case in cases if case.shape[-1]) for kind, cases in FOUND.items()
} | {
    "bench": tuple(
        Case(shape, "bfloat16", values="all wanted") for shape in ((8_192, 128_256), (16_384, 32_000), (8_192, 50_257))
    )
}


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    """Logits, and targets of which about a sixth is ignored: not where time is taken, where all are wanted."""
    random = generator(case, device)
    usual = replace(case, values="realistic") if case.values in ("masked", "all wanted") else case
    x = rows(usual, random, spread=3, outlier=lambda normal: 4 * normal + 8)
    if case.values == "masked":  # classes that are ruled out, some of the targets among them, and a row without any
        x[..., ::3], x[0] = float("-inf"), float("-inf")
    target = torch.randint(0, case.shape[-1], case.shape[:-1], generator=random, device=device)
    if case.values != "all wanted":
        dropped = torch.rand(case.shape[:-1], generator=random, device=device) < 1 / 6
        target = target.masked_fill(dropped, dict[str, Any](case.params).get("ignore_index", -100))
    if case.layout in ("rows", "transposed") and target.dim() > 1:
        target = lay_out(target, "transposed")
    return {"x": x, "target": target} | dict(case.params)
