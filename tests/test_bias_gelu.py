"""What is special to bias and GELU: the sum is not rounded, and the fast series keeps the left tail."""

import pytest
import torch
from rungs import DEVICE, each_rung

import kernels

OP = kernels.operation("bias_gelu")


@pytest.mark.parametrize("level", [1, 4, 5])
def test_the_sum_is_not_rounded(level):
    x, bias = (
        torch.full(shape, value, dtype=torch.bfloat16, device=DEVICE) for shape, value in (((2, 8), 256), ((8,), 1.25))
    )
    x[1] = -x[1]
    y = kernels.bias_gelu(x, bias - x[0], level=level)  # rounded, -254.75 would be -255
    expected = torch.nn.functional.gelu(x.float() + (bias - x[0]).float()).bfloat16()
    assert torch.equal(y, expected)


@pytest.mark.parametrize("level", [4, 5])
def test_half_types_keep_the_left_tail(level):
    """An absolute error of 1e-7 would be a tenth of what is left at -5."""
    x = torch.linspace(-5, -1, 64, dtype=torch.bfloat16, device=DEVICE)[None]
    y = kernels.bias_gelu(x, torch.zeros(64, dtype=torch.bfloat16, device=DEVICE), level=level)
    expected = x.double() * torch.special.ndtr(x.double())
    torch.testing.assert_close(y.double(), expected, rtol=2**-7, atol=0)


@pytest.mark.parametrize("N", [1, 2, 3])
@each_rung(OP, [one for one in OP.backward if one.level == 5])
def test_narrow_columns_are_added_up_in_pairs(variant, N):
    """A chain of all rows of a block would round 255 times. The slope is 1 at 20."""
    x, dy = (torch.full((2_304, N), value, device=DEVICE) for value in (20.0, 0.1))
    dbias = OP.results(variant.fn, {"x": x, "bias": torch.zeros(N, device=DEVICE)}, ["bias"], {"y": dy})["dbias"]
    torch.testing.assert_close(dbias.double(), dy.double().sum(0), rtol=3e-7, atol=0)
