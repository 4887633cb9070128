"""The inputs that softmax is checked and timed on."""

import torch

from kernels.operation import Case
from kernels.row_cases import VALUES, each, generator, row_cases, rows

# 1 and 2; about a 16-byte vector and a warp; primes; more than a program keeps; more than a block takes alone.
WIDTHS = (1, 2, 7, 8, 9, 31, 32, 33, 127, 768, 1000, 1024, 4099, 9000)
CASES = row_cases(
    WIDTHS,
    ("realistic", *VALUES, "masked"),
    model=each((2, 4, 16, 64), (64, 1_000)),
    edge=tuple(case for values in ("nonfinite", "masked", "large") for case in each((3, 9_001), values=values)),
    bench=((2_048, 131_072),),
)


def make_inputs(case: Case, device: str) -> dict[str, torch.Tensor]:
    """x, so far spread that realistic rows have probabilities that are not small, as logits do."""
    return {"x": rows(case, generator(case, device), spread=4, outlier=lambda normal: 4 * normal + 0.5 + 8)}
