"""What is special to a scan: of ones it counts, and its last element is the sum."""

import pytest
import torch

import kernels
from kernels.machine import here

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
OP = kernels.operation("scan")


@pytest.mark.parametrize("variant", OP.variants, ids=lambda v: v.key)
@pytest.mark.parametrize("N", [31, 1_030, 20_000])
def test_ones_are_counted(variant, N):
    if reason := variant.unsupported(OP.cases["model"][0], here(DEVICE)):
        pytest.skip(reason)
    x = torch.ones(2, N, device=DEVICE, requires_grad=True)
    y = variant(x)
    y.sum().backward()
    counted = torch.arange(1.0, N + 1, device=DEVICE)
    assert torch.equal(y, counted.expand(2, N))
    assert torch.equal(x.grad, counted.flip(0).expand(2, N))
