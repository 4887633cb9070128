"""What is special to RMS norm: the scale of a row cancels, and few wide rows take another kernel in Triton."""

import torch
from rungs import DEVICE, each_rung

import kernels

OP = kernels.operation("rms_norm")


@each_rung(OP, OP.forward)
def test_rows_have_a_root_mean_square_of_one_whatever_their_scale(variant):
    for N in (70, 9_000):
        x = torch.randn(3, N, generator=torch.Generator().manual_seed(0)).to(DEVICE)
        y = variant(x, None, 0.0)
        torch.testing.assert_close(y.square().mean(-1), torch.ones(3, device=DEVICE))
        torch.testing.assert_close(variant(1_024 * x, None, 0.0), y, rtol=1e-6, atol=0)


@each_rung(OP, OP.backward)
def test_dx_of_one_column_is_what_eps_leaves(variant):
    """g and n · mean(g · n) are nearly equal there: their difference would be nothing but what was rounded."""
    random = torch.Generator().manual_seed(0)
    for M in (40, 1_100):  # more than a kernel for few rows takes
        x, dy = torch.linspace(0.01, 3, M, device=DEVICE)[:, None], torch.randn(M, 1, generator=random).to(DEVICE)
        x[3], x[5], dy[7] = torch.inf, torch.nan, torch.inf
        inputs = {"x": x, "weight": torch.full((1,), 1.5, device=DEVICE)}
        exact = {name: one.double() for name, one in inputs.items()}
        got = OP.results(variant.fn, inputs, ["x"], {"y": dy})["dx"]
        expected = OP.results(OP.reference, exact, ["x"], {"y": dy.double()})["dx"]
        torch.testing.assert_close(got.double(), expected, rtol=3e-6, atol=0, equal_nan=True)
