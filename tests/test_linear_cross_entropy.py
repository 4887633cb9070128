"""What is special to a projection with cross-entropy: the logits are never whole in memory."""

import pytest
import torch

import kernels

OP = kernels.operation("linear_cross_entropy")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch counts the memory of a GPU alone")
@pytest.mark.parametrize("level", ["triton", "cuda"])
def test_the_peak_of_memory_is_an_eighth_of_the_logits(level):
    M, K, N = 8_192, 1_024, 128_256
    inputs = OP.inputs(shape=(M, K), dtype="bfloat16", sizes={"classes": N}, device="cuda")
    x, weight = (inputs[name].requires_grad_() for name in ("x", "weight"))
    x.grad, weight.grad = torch.zeros_like(x), torch.zeros_like(weight)
    gradients = x.numel() * 2 + weight.numel() * 2  # of this call, before they are added to those
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    loss, _ = OP[level](x, weight, inputs["target"])
    loss.sum().backward()
    assert torch.cuda.max_memory_allocated() - before - gradients < M * N * 2 / 8
