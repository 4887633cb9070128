"""What is special to softmax: rows sum to one, and what is added to a row changes nothing."""

import torch
from rungs import DEVICE, each_rung

import kernels

OP = kernels.operation("softmax")


@each_rung(OP, OP.forward)
def test_rows_sum_to_one_and_keep_when_shifted(variant):
    x = torch.randint(-99, 99, (3, 1_001), generator=torch.Generator().manual_seed(0)).to(DEVICE) / 8
    y = variant(x)
    torch.testing.assert_close(y.sum(-1), torch.ones(3, device=DEVICE))
    torch.testing.assert_close(variant(x + 1_024), y, rtol=0, atol=0)  # exact: x has few bits
