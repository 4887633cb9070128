"""What is special to layer norm: loops over many rows, and long sums down the columns."""

import pytest
import torch

import kernels
from kernels import row_parts
from kernels.check import check
from kernels.operation import Case
from kernels.ops.layer_norm import native, triton_backward, triton_backward_odd, triton_backward_wide

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
OP = kernels.operation("layer_norm")


@pytest.mark.parametrize("key", ["triton/partials", "triton/prefetch"])
def test_programs_walk_over_many_rows(key, monkeypatch):
    """As on a GPU with one multiprocessor: every loop over rows goes round several times."""
    for module in (triton_backward, triton_backward_wide):
        monkeypatch.setattr(module, "multiprocessors", lambda device: 1)
    cases = (Case((70, 33)), Case((35, 1_500), "bfloat16"), Case((9, 8_200), "float16"))
    assert not [result for result in check(OP, (OP[key],), cases, DEVICE) if result.failure]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_many_odd_rows_are_loaded_as_vectors(monkeypatch, dtype):
    monkeypatch.setattr(triton_backward_odd, "multiprocessors", lambda device: 1)  # so that a program has several rows
    taken = []
    odd = triton_backward_odd.odd
    monkeypatch.setattr(triton_backward_odd, "odd", lambda *args: taken.append(args) or odd(*args))
    for N in (257, 301):
        x, dy, weight, bias = (torch.randn(*shape).to(dtype) for shape in ((137, N), (137, N), (N,), (N,)))
        x += 3
        x[5, -1] = torch.inf  # nothing of it comes into the row behind
        got = triton_backward.prefetch(dy, x, weight, bias, 1e-5)
        expected = native.layer_norm_backward(*(one.double() for one in (dy, x, weight, bias)), 1e-5)
        for one, other in zip(got, expected, strict=True):
            torch.testing.assert_close(one.double(), other, rtol=1e-2, atol=1e-2, equal_nan=True)
    assert len(taken) == 2
    triton_backward.prefetch(dy[:15], x[:15], weight, bias, 1e-5)  # a program would have one row
    triton_backward.prefetch(dy[:, 1:], x[:, 1:], weight[1:], bias[1:], 1e-5)  # not one behind the other
    assert len(taken) == 2


@pytest.mark.skipif(DEVICE == "cpu", reason="2^31 elements take a GPU's memory and speed")
@pytest.mark.parametrize("variant", [v for v in OP.variants if v.level >= 4], ids=lambda v: v.key)
def test_sums_over_many_rows_do_not_stop_growing(variant):
    """Row by row, float32 counts ones up to 2^24 and no further: the next one is lost in rounding. Partial sums are short."""
    M, N = 2**31 // 64 + 5, 64
    inputs = OP.inputs(shape=(M, N), dtype="bfloat16", device=DEVICE)
    ones = {"y": torch.ones((), device=DEVICE, dtype=torch.bfloat16).expand(M, N)}
    dbias = OP.results(variant.fn, inputs, ["bias"], ones)["dbias"]
    total = float(M if variant.deterministic else min(M, 2**24))
    torch.testing.assert_close(dbias.float(), torch.full((N,), total, device=DEVICE), rtol=1e-2, atol=0)


@pytest.mark.parametrize("key", ["triton/passes", "cuda/reread"])
@pytest.mark.parametrize("N", [8_193, 12_288, 70_000])
def test_parts_of_a_row_of_equal_values_leave_nothing(key, N):
    """However many parts a row has, and whatever the last one is: the mean is exact, so that nothing is left of the row."""
    x = torch.tensor([[3.0], [-1e4]], device=DEVICE).expand(2, N).contiguous()
    bias = torch.arange(N, device=DEVICE, dtype=torch.float32)
    assert torch.equal(OP[key].fn(x, torch.ones_like(bias), bias, 1e-5), bias.expand(2, N))


@pytest.mark.parametrize("M", [1, 7, 132, 263, 5_000])
@pytest.mark.parametrize("N", [1_024, 8_193, 131_072, 10_000_000])
def test_parts_fit_a_block(M, N):
    columns = row_parts.columns_of_part(M, N, torch.device("cpu"))
    assert columns % (row_parts.VALUES * 32) == 0
    assert 32 <= row_parts.threads_of_part(columns) == 32 * row_parts.warps_of_part(columns) <= 1_024
