"""The inputs that embedding is checked and timed on. A case's shape is the output's: indices × columns."""

from dataclasses import replace
from typing import Any

import torch

from kernels.case import few_rows
from kernels.layouts import lay_out
from kernels.operation import Case
from kernels.row_cases import each, generator, row_cases, rows

VOCABULARY = 37  # fewer rows than most cases have indices: they come again
TABLES = {"vocabulary": 128_256}, {"vocabulary": 32_000}
CASES: dict[str, tuple[Case, ...]] = row_cases(
    values=("offset", "constant", "nonfinite", "large"),
    model=each((64, 768), (2, 16, 512), sizes={"vocabulary": 1_000}),
    edge=(
        *each((40, 96), (3, 1_001), params={"padding_idx": 3}),
        *each((9, 130), sizes={"vocabulary": 1}),
        *each((33, 65), values="one"),
        *each((70, 8), sizes={"vocabulary": 2_100}),
        # As many tokens as are compared with each other in CUDA C, and more, of rows that come again.
        *each((1_024, 2), (1_025, 2), sizes={"vocabulary": 1_100}),
        *each((40, 3), values="one", sizes={"vocabulary": 64}),
    ),
) | {
    "bench": tuple(
        Case((tokens, width), "bfloat16", sizes=table)
        for tokens, width, table in ((16_384, 4_096, TABLES[0]), (65_536, 1_024, TABLES[1]), (32_768, 768, TABLES[1]))
    )
}


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    """A table, and indices that come as often as words do: their number is squared, so the first rows come most. "one" has
    the same everywhere."""
    random, V = generator(case, device), case.sizes.get("vocabulary", VOCABULARY)
    tokens = torch.rand(case.shape[:-1], generator=random, device=device)
    index = (tokens.square() * V).long().clamp(max=V - 1)
    if case.values == "one":
        index.fill_(V - 1)
    if case.layout in ("rows", "transposed") and index.dim() > 1:
        index = lay_out(index, "transposed")
    layout = "rows" if case.layout == "sliced" else case.layout  # a table has two dimensions
    values = "realistic" if case.values == "one" else case.values
    table = replace(case, shape=(V, case.shape[-1]), layout=layout, values=values)
    return {"index": index, "weight": rows(table, random)} | dict(case.params)


def few(case: Case, rows: int) -> Case:
    """Few indices, into a table of few rows, whose number is divisible by 16 where the case's is: the same kernels are made."""
    V = case.sizes.get("vocabulary", VOCABULARY)
    return replace(few_rows(case, rows), sizes={"vocabulary": V if V < 128 else 64 + V % 16})
