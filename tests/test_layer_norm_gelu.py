"""What is special to layer norm with GELU: it is the two in turn, and of each element only the result is rounded."""

import pytest
import torch
import torch.nn.functional as F

import kernels
from kernels.ops.layer_norm import cuda as norm_cuda
from kernels.ops.layer_norm_gelu import cuda as gelu_cuda

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("level", [1, 4, 5])
def test_only_the_result_is_rounded(level):
    random = torch.Generator().manual_seed(0)
    x, weight, bias = (torch.randn(shape, generator=random).bfloat16().to(DEVICE) for shape in ((9, 70), (70,), (70,)))
    y = kernels.layer_norm_gelu(x, weight, bias, level=level)
    expected = F.gelu(F.layer_norm(x.float(), (70,), weight.float(), bias.float()))
    torch.testing.assert_close(
        y.float(), expected, rtol=2**-8, atol=1e-6
    )  # a rounding of the norm would be another 2**-9


@pytest.mark.parametrize("N", [21, 64, 511])
def test_rows_of_equal_values_give_the_bias_alone_in_cuda(N):
    """It counts from the first value. What a mean is off by is multiplied by 1 / sqrt(eps): at levels 1 and 4 by a rounding."""
    x = (torch.randn(64, 1, generator=torch.Generator().manual_seed(0)) * 1e4).expand(64, N).contiguous()
    weight, bias = torch.ones(N), torch.linspace(-1, 1, N)
    y = kernels.layer_norm_gelu(*(one.to(DEVICE) for one in (x, weight, bias)), level=5)
    torch.testing.assert_close(y, F.gelu(bias).to(DEVICE).expand(64, N), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_variance_is_not_below_zero(monkeypatch, at_once):
    """Of equal values, far from 0, the difference of sums that it is may be; its root would be NaN."""
    for op in (gelu_cuda, norm_cuda):
        monkeypatch.setattr(op, "at_once", lambda *shape: at_once)
    powers = torch.rand(256, 1, generator=torch.Generator().manual_seed(0)) * 2 + 7.5
    x = (10.0**powers).expand(256, 1000).contiguous().to(DEVICE)
    weight, bias = torch.ones(1000, device=DEVICE), torch.zeros(1000, device=DEVICE)
    assert gelu_cuda.kept(x, weight, bias, 1e-5).isfinite().all()
    assert norm_cuda.few(x, weight, bias, 1e-5).isfinite().all()
