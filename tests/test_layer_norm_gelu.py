"""What is special to layer norm with GELU: it is the two in turn, and of each element only the result is rounded."""

import pytest
import torch
import torch.nn.functional as F

import kernels

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
