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
