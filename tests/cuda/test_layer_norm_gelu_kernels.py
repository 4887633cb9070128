"""The kernels of the backward of layer norm and GELU: that which has a queue, where its blocks walk over rows, and that in
which one block has all rows."""

import pytest
import torch

from kernels import lens
from kernels.cuda import queue
from kernels.cuda.kernel import watched
from kernels.ops.layer_norm_gelu import cuda, native

DTYPES = {torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("M", "N"), [(50, 129), (20, 1101), (115, 64), (70, 96), (300, 16), (67, 100), (3, 8191)])
def test_a_block_walks_over_rows(device, monkeypatch, dtype, M, N):
    """Those of odd width start alike within vectors; narrow ones share warps, of which the last has fewer."""
    monkeypatch.setattr(queue, "multiprocessors", lambda device: 1)  # so that a block has several rows
    monkeypatch.setattr(cuda, "FEW_PEELED", 0)
    dy, x, weight, bias = (torch.randn(*shape, device=device).to(dtype) for shape in ((M, N), (M, N), (N,), (N,)))
    x += 30
    expected = native.layer_norm_gelu_backward(*(one.double() for one in (dy, x, weight, bias)), 1e-5)
    launches = []
    with watched(lambda *launch: launches.append(launch[0].name)):
        cuda.queue(dy, x, weight, bias, 1e-5)
    assert launches[0].startswith("layer_norm_gelu_backward_queue<")
    for one, right in zip(cuda.queue(dy, x, weight, bias, 1e-5), expected, strict=True):
        torch.testing.assert_close(one.double(), right, rtol=DTYPES[dtype], atol=3 * DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("M", "N"),
    [(4, 385), (2, 1264), (1, 1), (7, 1), (1, 4096), (1, 3001), (8, 500), (3, 17), (60, 30), (33, 2), (16, 100)],
)
@pytest.mark.parametrize("mean", [30, 0])
def test_one_block_has_few_rows(device, dtype, M, N, mean):
    random = torch.Generator().manual_seed(M + N)
    dy, x, weight, bias = (
        torch.randn(*shape, generator=random).to(device).to(dtype) for shape in ((M, N), (M, N), (N,), (N,))
    )
    x += mean
    expected = native.layer_norm_gelu_backward(*(one.double() for one in (dy, x, weight, bias)), 1e-5)
    launches = []
    with watched(lambda *launch: launches.append(launch[0].name)):
        cuda.queue(dy, x, weight, bias, 1e-5)
    assert len(launches) == 1 and launches[0].startswith("layer_norm_gelu_backward_few<")
    got = cuda.queue(dy, x, weight, bias, 1e-5)
    for one, right in zip(got, expected, strict=True):
        torch.testing.assert_close(one.double(), right, rtol=DTYPES[dtype], atol=3 * DTYPES[dtype])
    assert N > 1 or not got[0].any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("N", [385, 64, 2])
def test_nothing_is_found_in_one_block(dtype, N):
    dy, x = (torch.randn(4, N).to(dtype) for _ in range(2))
    traces = []
    with watched(lambda *launch: traces.append(lens.trace(*launch))):
        assert cuda.few(dy, x, x[0].clone(), x[1].clone(), 1e-5)
    assert [str(finding) for trace in traces for finding in trace.findings] == []


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("N", [64, 65])
def test_nothing_is_read_beyond_the_last_row(monkeypatch, dtype, N):
    monkeypatch.setattr(cuda, "FEW_PEELED", 0)
    dy, x = (torch.randn(5, N).to(dtype) for _ in range(2))
    traces = []
    with watched(lambda *launch: traces.append(lens.trace(*launch))):
        assert cuda.queued(dy, x, x[0].clone(), x[1].clone(), 1e-5)
    assert [str(finding) for trace in traces for finding in trace.findings] == []
