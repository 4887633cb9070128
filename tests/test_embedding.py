"""What is special to embedding: an index out of its range is named, and padding gets no gradient."""

import pytest
import torch
from rungs import DEVICE, each_rung

import kernels

OP = kernels.operation("embedding")


@each_rung(OP)
def test_a_row_gets_what_comes_for_it_as_often_as_it_comes(variant):
    weight = torch.zeros(5, 40, device=DEVICE, requires_grad=True)
    index = torch.tensor([[4, 1, 4], [2, 4, 1]], device=DEVICE)
    variant(index, weight, padding_idx=1).sum().backward()
    assert torch.equal(weight.grad, torch.tensor([0.0, 0, 1, 0, 3], device=DEVICE)[:, None].expand(5, 40))


@pytest.mark.parametrize("embedding", [OP.baseline, OP.variants[0]], ids=["baseline", "native"])
def test_a_table_without_columns_avoids_pytorchs_gradient_of_embedding(embedding):
    # On a GPU that takes the stride of the rows, which is 1, for their width: an illegal memory access.
    y = embedding(torch.tensor([2, 0, 2]), torch.empty(5, 0, requires_grad=True))
    assert y.shape == (3, 0) and y.requires_grad
    assert "Embedding" not in y.grad_fn.name()


@pytest.mark.skipif(DEVICE == "cuda", reason="there the kernel asserts it, after which the process has no GPU")
@pytest.mark.parametrize("level", kernels.LEVELS)
@pytest.mark.parametrize("index", [7, -1, 2**40])
def test_an_index_out_of_range_is_named(level, index):
    with pytest.raises(ValueError, match=rf"index: got {index} at \(1,\), expected 0 to 6"):
        kernels.embedding(torch.tensor([0, index]), torch.zeros(7, 3), level=level)
