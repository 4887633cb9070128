"""What `tl.reduce` gives with a function of the kernel's own, in the lens."""

import torch
import triton_reduced as reduced  # before triton: see there
from triton_traced import trace


def test_every_form_of_it():
    x = torch.randn(64, generator=torch.Generator().manual_seed(0))
    x[9] = x[40] = x.max() + 1
    sums, place, maps = torch.zeros(11), torch.zeros(1, dtype=torch.int32), torch.zeros(2)
    assert trace(reduced.reduced_kernel, (1,), (x, sums, place, maps), BLOCK=64).error is None
    rows = x.view(4, 16).sum(1)
    torch.testing.assert_close(sums, torch.cat([rows, rows, x.sum()[None], x.max().repeat(2)]))
    assert place == 9
    a, b = 1.0, 0.0
    for one in x.tolist():
        a, b = a * one, b * one + one
    torch.testing.assert_close(maps, torch.tensor([a, b]))


def test_a_long_sum_is_as_exact_as_on_a_gpu():
    x = torch.rand(1 << 14, generator=torch.Generator().manual_seed(0))
    y = torch.zeros(1)
    trace(reduced.total_kernel, (1,), (x, y), BLOCK=1 << 14)
    exact = x.double().sum()
    assert abs(y.item() - exact) < 2 * torch.finfo(torch.float32).eps * exact  # one by one: ten times that
