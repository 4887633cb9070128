"""Rungs that go by how many rows a GPU has room for: where it has room for few, several narrow ones share a program.

Of the cases of the check a GPU has room for all rows, but for the largest. Wide rows have fewer threads each where it has not.
"""

import pytest
import torch

import kernels
from kernels import row_parts
from kernels.check import check

HERE = "cuda" if torch.cuda.is_available() else "cpu"
RUNGS = [
    pytest.param(op, variant, id=f"{op.name}-{variant.key}")
    for op in map(kernels.operation, kernels.operations())
    for variant in op.variants
    if any("at_once(" in path.read_text("utf-8") for path in variant.source)
]


@pytest.mark.parametrize(("op", "variant"), RUNGS)
def test_narrow_rows_that_share_a_program(op, variant, monkeypatch):
    monkeypatch.setattr(row_parts, "THREADS_AT_ONCE", 0)
    cases = [case for case in op.cases["edge"] if 1 <= case.shape[-1] <= 40]
    results = list(check(op, (variant,), cases[:: max(len(cases) // 6, 1)], device=HERE))
    assert len(results) >= 6 and not any(one.skipped for one in results)
    assert not [f"{one.case}: {one.failure}" for one in results if one.failure]


@pytest.mark.parametrize(("op", "variant"), RUNGS)
def test_wide_rows_where_others_wait_for_a_place(op, variant, monkeypatch):
    monkeypatch.setattr(row_parts, "THREADS_AT_ONCE", 0)
    cases = [case for case in op.cases["edge"] if 9_000 <= case.shape[-1] <= 20_000][::4]
    failures = [f"{one.case}: {one.failure}" for one in check(op, (variant,), cases, device=HERE) if one.failure]
    assert not failures, "\n".join(failures)
