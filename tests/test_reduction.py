"""What is special to reductions: of equals the first is the largest, NaN is larger than all, and nothing has no largest."""

import pytest
import torch
from rungs import DEVICE, each_rung

import kernels

OP = kernels.operation("reduction")
NAN = float("nan")


@each_rung(OP)
@pytest.mark.parametrize("dim", [0, -1])
def test_the_first_of_equals_and_nan(variant, dim):
    rows = torch.full((3, 2_100), -1.0, device=DEVICE)
    rows[0, [7, 70, 2_099]], rows[1, [40, 2_000]], rows[2] = 5.0, NAN, float("-inf")
    y, index = variant(rows if dim else rows.t().contiguous(), kind="max", dim=dim)
    assert index.tolist() == [7, 40, 0]
    torch.testing.assert_close(y, torch.tensor([5.0, NAN, float("-inf")], device=DEVICE), equal_nan=True)


@pytest.mark.parametrize("level", kernels.LEVELS)
def test_nothing_has_a_sum_and_no_largest(level):
    x = torch.zeros(3, 0)
    assert torch.equal(kernels.reduction(x, "sum", level=level)[0], torch.zeros(3))
    assert kernels.reduction(x, "mean", level=level)[0].isnan().all()
    with pytest.raises(ValueError, match=r"x: got shape \(3, 0\), expected at least one element along dimension -1"):
        kernels.reduction(x, "max", level=level)
