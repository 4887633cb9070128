"""What is special to softmax: rows sum to one, and what is added to a row changes nothing."""

import pytest
import torch

import kernels
from kernels.machine import here

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
OP = kernels.operation("softmax")


@pytest.mark.parametrize("variant", OP.forward, ids=lambda v: v.key)
def test_rows_sum_to_one_and_keep_when_shifted(variant):
    if reason := variant.unsupported(OP.cases["model"][0], here(DEVICE)):
        pytest.skip(reason)
    x = torch.randint(-99, 99, (3, 1_001), generator=torch.Generator().manual_seed(0)).to(DEVICE) / 8
    y = variant(x)
    torch.testing.assert_close(y.sum(-1), torch.ones(3, device=DEVICE))
    torch.testing.assert_close(variant(x + 1_024), y, rtol=0, atol=0)  # exact: x has few bits
