"""What is special to matrix products: they agree with the identity, add up no padding, and take one w or one for each."""

import pytest
import torch

import kernels
from kernels.machine import here

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
OP = kernels.operation("matmul")
RUNGS = [variant for variant in OP.forward if variant.level in (1, 4, 5)]


def run(variant, *args, **params):
    if reason := variant.unsupported(OP.cases["model"][0], here(DEVICE)):
        pytest.skip(reason)
    return variant.fn(*args, **params)


@pytest.mark.parametrize("variant", RUNGS, ids=lambda v: v.key)
def test_the_identity_changes_nothing(variant):
    x = torch.randn(19, 33, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    assert torch.equal(run(variant, x, torch.eye(33, device=DEVICE)), x)


@pytest.mark.parametrize("variant", RUNGS, ids=lambda v: v.key)
def test_what_lies_behind_a_matrix_is_not_added(variant):
    memory = torch.full((40, 64), float("nan"), device=DEVICE)
    x, w = memory[:17, :21].fill_(1), torch.ones(21, 5, device=DEVICE)
    assert torch.equal(run(variant, x, w), torch.full((17, 5), 21.0, device=DEVICE))


def test_a_w_of_another_batch_is_refused():
    with pytest.raises(ValueError, match=r"w: got shape \(2, 4, 5\), expected \(3, 4, 5\)"):
        kernels.matmul(torch.ones(3, 6, 4), torch.ones(2, 4, 5))
