"""What is special to a histogram: its counts add up to the number of values, and a value out of its range is named."""

import pytest
import torch
from rungs import DEVICE, each_rung

import kernels

OP = kernels.operation("histogram")


@each_rung(OP)
def test_counts_add_up_in_any_order_of_the_values(variant):
    x = OP.inputs(shape=(3, 500), dtype="int32", device=DEVICE)["x"]
    counts = variant(x, 300)
    assert counts.sum() == x.numel() and not counts[100:].any()
    assert torch.equal(variant(x.flip(0, 1).clone(), 300), counts)


@each_rung(OP)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_values_are_counted_wherever_they_start_and_end(variant, dtype):
    values = torch.randint(5, (70,), generator=torch.Generator().manual_seed(1)).to(DEVICE, dtype)
    for start in range(17):  # of every place within 16 bytes
        for end in (start + 1, start + 2, 37, 70):
            assert torch.equal(variant(values[start:end], 5), torch.bincount(values[start:end].long(), minlength=5))


@pytest.mark.skipif(DEVICE == "cuda", reason="there the kernel asserts it, after which the process has no GPU")
@pytest.mark.parametrize("level", kernels.LEVELS)
@pytest.mark.parametrize("value", [7, -1, 2**40])
def test_a_value_out_of_range_is_named(level, value):
    with pytest.raises(ValueError, match=rf"x: got {value} at \(1,\), expected 0 to 6"):
        kernels.histogram(torch.tensor([0, value]), 7, level=level)
