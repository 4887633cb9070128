"""What is special to addition and RMS norm: two outputs, of which either may be left alone, and equal gradients."""

import torch
from rungs import DEVICE, each_rung

import kernels

OP = kernels.operation("add_rms_norm")


@each_rung(OP)
def test_h_passes_its_gradient_on_and_x_and_residual_share_theirs(variant):
    inputs = OP.inputs(shape=(3, 70), device=DEVICE)
    dh, dy = (torch.randn(3, 70, generator=torch.Generator().manual_seed(seed)).to(DEVICE) for seed in (1, 2))
    h_gradients = OP.results(variant.fn, inputs, OP.gradients, {"h": dh})
    torch.testing.assert_close(h_gradients["dx"], dh, rtol=0, atol=0)
    assert h_gradients["dweight"] is None or not h_gradients["dweight"].any()
    y_gradients = OP.results(variant.fn, inputs, OP.gradients, {"y": dy})
    assert y_gradients["dweight"].any() and torch.equal(y_gradients["dx"], y_gradients["dresidual"])
