"""What is special to cross-entropy: ignored rows do not count, and a target out of its range is named."""

import pytest
import torch
from rungs import DEVICE, each_rung

import kernels
from kernels.machine import here
from kernels.ops.cross_entropy import cuda

OP = kernels.operation("cross_entropy")


@each_rung(OP)
def test_an_ignored_row_has_no_loss_and_no_gradient_whatever_is_in_it(variant):
    x = torch.full((3, 70), torch.nan, device=DEVICE).index_fill_(0, torch.tensor([1], device=DEVICE), 2.0)
    x, target = x.requires_grad_(), torch.tensor([-100, 69, -100], device=DEVICE)
    loss, lse = variant(x, target, label_smoothing=0.1, z_loss=0.01)
    loss.sum().backward()
    assert loss[::2].tolist() == lse[::2].tolist() == [0, 0]
    assert not x.grad[::2].any() and x.grad[1].isfinite().all() and x.grad[1].any()


@pytest.mark.skipif(DEVICE == "cuda", reason="there the kernel asserts it, after which the process has no GPU")
@pytest.mark.parametrize("level", kernels.LEVELS)
@pytest.mark.parametrize("target", [7, -1, 2**40])
def test_a_target_out_of_range_is_named(level, target):
    with pytest.raises(ValueError, match=rf"target: got {target} at \(1,\), expected 0 to 6, or -100"):
        kernels.cross_entropy(torch.zeros(2, 7), torch.tensor([0, target]), level=level)


@pytest.mark.skipif(cuda.FORWARD[0].unsupported(OP.cases["model"][0], here(DEVICE)), reason="level 5 does not run here")
@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize(("dtype", "N"), [(torch.float32, 1_031), (torch.bfloat16, 64), (torch.float16, 7)])
@pytest.mark.parametrize("parameters", [(-100, 0.0, 0.0), (2, 0.2, 0.01)])
def test_a_forward_that_knows_the_gradient_of_the_losses_writes_that_of_the_logits(parameters, dtype, N, in_place):
    """By vectors and value by value, with ignored rows; dx in the memory of x and apart from it."""
    random = torch.Generator().manual_seed(0)
    x = (3 * torch.randn(4, N, generator=random)).to(DEVICE, dtype)
    target = torch.tensor([0, N - 1, parameters[0], 5], device=DEVICE)
    exact = x.double().requires_grad_()
    expected, _ = OP.reference(exact, target, *parameters)
    (gradient,) = torch.autograd.grad(expected.sum() / 3, exact)

    loss, scale = torch.empty(4, device=DEVICE), torch.full((1,), 1 / 3, device=DEVICE)
    dx = x if in_place else torch.full_like(x, torch.nan)
    cuda.by_rows(x, target, loss, None, *parameters, scale, dx)
    torch.testing.assert_close(loss, expected.detach().float())
    torch.testing.assert_close(dx, gradient.to(dtype), rtol=2 * torch.finfo(dtype).eps, atol=1e-6)
    assert not dx[2].any()
