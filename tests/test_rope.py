"""What is special to rotary embedding: norms stay, and dot products go by the distance of positions alone."""

import pytest
import torch

import kernels
from kernels.machine import here

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
OP = kernels.operation("rope")


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("variant", OP.forward, ids=lambda v: v.key)
def test_norms_stay_and_products_go_by_distance(variant, interleaved):
    if reason := variant.unsupported(OP.cases["model"][0], here(DEVICE)):
        pytest.skip(reason)
    inputs = OP.inputs(shape=(1, 1, 40, 16), device=DEVICE)
    q, k = (inputs[name][:, :, :1].repeat(1, 1, 40, 1) for name in "qk")  # the same at every position
    norms = q.norm(dim=-1)
    variant(q, k, inputs["cos"], inputs["sin"], interleaved)
    torch.testing.assert_close(q.norm(dim=-1), norms)
    products = (q @ k.transpose(-1, -2))[0, 0]
    for distance in (-7, 0, 1, 30):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(products[0, :1], products[0, 1:], rtol=1e-2)
