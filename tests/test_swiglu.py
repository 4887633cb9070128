"""What is special to the gates: they are made of halves of one product, and GeGLU is another activation."""

import pytest
import torch
import torch.nn.functional as F

import kernels

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("level", [1, 4, 5])
def test_the_halves_of_one_product_are_read_where_they_lie(level):
    gate, up = torch.randn(3, 5, 98, generator=torch.Generator().manual_seed(0)).to(DEVICE).chunk(2, dim=-1)
    torch.testing.assert_close(kernels.swiglu(gate, up, level=level), F.silu(gate) * up)
    for approximate in ("none", "tanh"):
        expected = F.gelu(gate, approximate=approximate) * up
        torch.testing.assert_close(kernels.geglu(gate, up, approximate, level), expected)


@pytest.mark.parametrize(("fn", "word"), [(kernels.swiglu, "activation"), (kernels.geglu, "approximate")])
def test_an_unknown_activation_is_named(fn, word):
    with pytest.raises(ValueError, match=f"{word}: got 'relu', expected one of"):
        fn(torch.ones(2, 3), torch.ones(2, 3), "relu")
