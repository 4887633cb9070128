"""What is special to sums of segments: ones are counted wherever parts of rows end, and offsets that cannot be are named."""

import pytest
import torch
from rungs import DEVICE, each_rung

import kernels
from kernels.ops.segment_reduce import cuda, triton

OP = kernels.operation("segment_reduce")


@pytest.fixture(params=["few", "in parts"])
def division(request, monkeypatch):
    """As the numbers of rows and segments have it, and as if all rows were many."""
    if request.param == "in parts":
        monkeypatch.setattr(cuda, "MOST_OF_LANE", 0)
        monkeypatch.setattr(triton, "FEW_ROWS", 0)


@each_rung(OP)
def test_ones_are_counted_wherever_parts_of_rows_end(variant, division):
    # Empty at the beginning, in the middle and at the end; from a part's end to another's; over three parts; in one row.
    offsets = torch.tensor([0, 0, 127, 128, 256, 256, 257, 600, 601, 640, 640], device=DEVICE)
    x = torch.ones(640, 3, device=DEVICE, requires_grad=True)
    y = variant(x, offsets)
    assert torch.equal(y, offsets.diff().float()[:, None].expand(10, 3))
    (y * torch.arange(10.0, device=DEVICE)[:, None]).sum().backward()
    assert torch.equal(x.grad[:, 1], torch.arange(10.0, device=DEVICE).repeat_interleave(offsets.diff()))
    assert torch.equal(variant(x, offsets, mean=True), (y > 0).float())


@each_rung(OP)
def test_segments_without_rows_far_outnumber_the_rows(variant, division):
    # Parts of ends alone, between segments that begin and end in other parts.
    lengths = torch.zeros(600, dtype=torch.long, device=DEVICE)
    lengths[7], lengths[300], lengths[301], lengths[599] = 3, 1, 70, 2
    offsets = torch.cat((lengths.new_zeros(1), lengths.cumsum(0)))
    x = torch.ones(76, 3, device=DEVICE, requires_grad=True)
    y = variant(x, offsets)
    assert torch.equal(y, lengths.float()[:, None].expand(600, 3))
    (y * torch.arange(600.0, device=DEVICE)[:, None]).sum().backward()
    assert torch.equal(x.grad[:, 1], torch.arange(600.0, device=DEVICE).repeat_interleave(lengths))


@pytest.mark.skipif(DEVICE == "cuda", reason="there the kernel asserts it, after which the process has no GPU")
@pytest.mark.parametrize("level", kernels.LEVELS)
@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ([1, 5], "offsets: got 1 first and 5 last, expected 0 and 5, the rows of x"),
        ([0, 6], "offsets: got 0 first and 6 last"),
        ([0, 4, 3, 5], "offsets: got 3 behind 4, expected no smaller number"),
    ],
)
def test_offsets_that_cannot_be_are_named(level, offsets, words):
    with pytest.raises(ValueError, match=words):
        kernels.segment_reduce(torch.zeros(5, 3), torch.tensor(offsets), level=level)


@pytest.mark.skipif(DEVICE == "cpu", reason="2^31 elements take a GPU's memory and speed")
@pytest.mark.parametrize("variant", [one for one in OP.variants if one.level >= 4], ids=lambda v: v.key)
def test_more_than_2_to_the_31_elements(variant):
    T = 2**31 // 64 + 5
    x = torch.zeros(T, 64, dtype=torch.bfloat16, device=DEVICE)
    x[-3:] = 1
    offsets = torch.tensor([0, 1_000, T - 2, T], device=DEVICE)
    y = variant(x.requires_grad_(), offsets)
    assert y[:, 0].tolist() == [0, 1, 2]
    (dx,) = torch.autograd.grad(y, x, torch.arange(3.0, device=DEVICE)[:, None].expand(3, 64).bfloat16())
    assert dx[-3:, 5].tolist() == [1, 2, 2] and dx[999:1_001, 5].tolist() == [0, 1]
