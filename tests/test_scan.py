"""What is special to a scan: of ones it counts, and its last element is the sum."""

import pytest
import torch
from rungs import DEVICE, each_rung

import kernels

OP = kernels.operation("scan")


@each_rung(OP)
@pytest.mark.parametrize("N", [31, 1_030, 20_000])
def test_ones_are_counted(variant, N):
    x = torch.ones(2, N, device=DEVICE, requires_grad=True)
    y = variant(x)
    y.sum().backward()
    counted = torch.arange(1.0, N + 1, device=DEVICE)
    assert torch.equal(y, counted.expand(2, N))
    assert torch.equal(x.grad, counted.flip(0).expand(2, N))
