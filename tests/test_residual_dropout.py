"""What is special to dropout: its rate, the same mask at every level and in the gradient, and the largest tensors."""

import pytest
import torch
from rungs import DEVICE, each_rung

import kernels
from kernels.random import uniform4

OP = kernels.operation("residual_dropout")
KERNELS = [variant for variant in OP.forward if variant.level >= 4]


@each_rung(OP, OP.forward)
def test_the_rate_and_one_mask(variant):
    x, residual = torch.ones(100, 400, device=DEVICE, requires_grad=True), torch.zeros(100, 400, device=DEVICE)
    y = variant(x, residual, 0.2, 7)
    assert abs(float((y == 0).float().mean()) - 0.2) < 5 * (0.2 * 0.8 / y.numel()) ** 0.5  # five standard errors
    assert torch.equal(y, OP["native"](x, residual, 0.2, 7)) and not torch.equal(y, variant(x, residual, 0.2, 8))
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], y)


@pytest.mark.skipif(DEVICE == "cpu", reason="2^31 elements take a GPU's memory and speed")
@pytest.mark.parametrize("variant", KERNELS, ids=lambda v: v.key)
def test_elements_beyond_2_to_the_31_have_numbers_of_their_own(variant):
    x = torch.ones(2**31 + 4_096, dtype=torch.bfloat16, device=DEVICE)
    y = variant(x, x, 0.5, 7)[-8_192:]
    numbers = uniform4(7, torch.arange((x.numel() - 8_192) // 4, x.numel() // 4, device=DEVICE)).flatten()
    assert torch.equal(y, torch.where(numbers >= 0.5, 3.0, 1.0).to(y.dtype))
