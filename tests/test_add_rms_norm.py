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


@each_rung(OP, OP.backward)
def test_dx_of_one_column_is_what_eps_leaves(variant):
    """As RMS norm's."""
    x, random = torch.linspace(0.01, 3, 1_100, device=DEVICE)[:, None], torch.Generator().manual_seed(0)
    dy, dh = (torch.randn(x.shape, generator=random).to(DEVICE) for _ in range(2))
    inputs = {"x": x, "residual": torch.zeros_like(x), "weight": torch.full((1,), 1.5, device=DEVICE)}
    for M in (40, 1_100):
        rows = {name: one[:M] if one.dim() > 1 else one for name, one in inputs.items()}
        for incoming in ({"y": dy[:M]}, {"y": dy[:M], "h": dh[:M]}):
            exact, gradients = ({name: one.double() for name, one in given.items()} for given in (rows, incoming))
            got = OP.results(variant.fn, rows, ["x"], incoming)["dx"]
            expected = OP.results(OP.reference, exact, ["x"], gradients)["dx"]
            torch.testing.assert_close(got.double(), expected, rtol=3e-6, atol=1e-6 if "h" in incoming else 0)
