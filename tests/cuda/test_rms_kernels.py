"""The kernels of (add_)rms_norm: of the backward, rms_backward.cuh, whose blocks walk over rows, and of narrow and few rows."""

import pytest
import torch

from kernels import lens
from kernels.cuda import queue
from kernels.cuda.kernel import watched
from kernels.ops import add_rms_norm, rms_norm

DTYPES = {torch.float32: 2e-5, torch.bfloat16: 4e-2}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("M", "N"), [(71, 96), (121, 40), (801, 8), (70, 264), (115, 65), (50, 129), (20, 1101), (5, 8191)]
)
def test_a_block_walks_over_rows(device, monkeypatch, dtype, M, N):
    """Those of odd width start alike within vectors; narrow ones share warps, of which the last has fewer."""
    monkeypatch.setattr(queue, "multiprocessors", lambda device: 1)  # so that a block has several rows
    dy, dh, x = (torch.randn(M, N, device=device).to(dtype) for _ in range(3))
    weight, eps = torch.randn(N, device=device).to(dtype), 1e-6
    for operation, gradients in ((rms_norm, (dy,)), (add_rms_norm, (dy, dh))):
        arguments = *gradients, x, weight, eps
        expected = getattr(operation.native, f"{operation.OPERATION.name}_backward")(*arguments)
        got = operation.cuda.in_registers(*arguments)
        torch.testing.assert_close(got, expected, rtol=DTYPES[dtype], atol=DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("N", [64, 65])
def test_nothing_is_read_beyond_the_last_row(dtype, N):
    dy, dh, x = (torch.randn(5, N).to(dtype) for _ in range(3))
    traces = []
    with watched(lambda *launch: traces.append(lens.trace(*launch))):
        assert rms_norm.cuda.in_registers(dy, x, None, 1e-6)
        assert add_rms_norm.cuda.in_registers(dy, dh, x, x[0].clone(), 1e-6)
    assert [str(finding) for trace in traces for finding in trace.findings] == []


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("M", "N"), [(300, 49), (2311, 1), (333, 63)])
def test_narrow_rows_are_copied_as_vectors(device, monkeypatch, dtype, M, N):
    monkeypatch.setattr(rms_norm.cuda, "multiprocessors", lambda device: 1)  # so that a block has several chunks
    dy, x = (torch.randn(M, N, device=device).to(dtype) for _ in range(2))
    for weight in (torch.randn(N, device=device).to(dtype), None):
        precise = None if weight is None else weight.double()
        expected = rms_norm.native.rms_norm_backward(dy.double(), x.double(), precise, 1e-6)
        for one, right in zip(rms_norm.cuda.narrow_gradients(dy, x, weight, 1e-6), expected, strict=True):
            if right is not None:
                torch.testing.assert_close(one.double(), right, rtol=DTYPES[dtype], atol=3 * DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("M", "N"), [(300, 49), (2311, 1), (93, 72), (37, 1373)])
def test_narrow_rows_of_the_forward_are_copied_as_vectors(device, dtype, M, N):
    x = torch.randn(M, N, device=device).to(dtype)
    x[5, -1] = torch.inf  # nothing of it comes into the row behind
    for weight in (torch.randn(N, device=device).to(dtype), None):
        expected = rms_norm.native.rms_norm(x.double(), None if weight is None else weight.double(), 1e-6)
        got = rms_norm.cuda.narrow(x, weight, torch.empty_like(x), 1e-6).double()
        torch.testing.assert_close(got, expected, rtol=DTYPES[dtype], atol=DTYPES[dtype], equal_nan=True)


@pytest.mark.parametrize(
    ("M", "N", "dtype", "kernel"),
    [
        (5000, 37, torch.float16, "rms_norm_narrow<"),
        (5000, 2047, torch.float16, "rms_norm_narrow<"),
        (5000, 2048, torch.float16, "rms_norm_kept<"),
        (5000, 18, torch.float32, "rms_norm_narrow<"),
        (5000, 1001, torch.float32, "rms_norm_kept<"),
        (5000, 1375, torch.float32, "rms_norm_kept<"),
        (20000, 201, torch.float32, "rms_norm_narrow<"),
        (20000, 1001, torch.float16, "rms_norm_narrow<"),
        (20000, 1002, torch.float16, "rms_norm_kept<"),
        (1, 8_420, torch.float16, "rms_norm_kept<"),
        (1, 32_768, torch.float16, "rms_norm_kept<"),
        (1, 32_768, torch.float32, "rms_norm_split<"),
        (1, 16_385, torch.float16, "rms_norm_split<"),
        (5000, 8_420, torch.float16, "rms_norm_reread<"),
    ],
)
def test_rows_choose_a_kernel_by_their_number_and_width(device, M, N, dtype, kernel):
    x = torch.empty(M, N, dtype=dtype, device=device)
    launches = []
    with watched(lambda *launch: launches.append(launch[0].name)):
        rms_norm.cuda.kept(x, x[0].clone(), 1e-6)
    assert launches[-1].startswith(kernel)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("N", [8_420, 12_301])
def test_few_wide_rows_stay_in_registers(device, dtype, N):
    x = torch.randn(2, N, device=device).to(dtype)
    for weight in (torch.randn(N, device=device).to(dtype), None):
        expected = rms_norm.native.rms_norm(x.double(), None if weight is None else weight.double(), 1e-6)
        torch.testing.assert_close(
            rms_norm.cuda.kept(x, weight, 1e-6).double(), expected, rtol=DTYPES[dtype], atol=DTYPES[dtype]
        )


@pytest.mark.parametrize("N", [1, 2, 3])
def test_narrow_columns_are_added_up_in_pairs(device, monkeypatch, N):
    """A chain of all rows of a block would round 255 times. x is normalised to 1."""
    monkeypatch.setattr(rms_norm.cuda, "multiprocessors", lambda device: 2)
    x, dy = (torch.full((2_304, N), value, device=device) for value in (1.0, 0.1))
    _, dweight = rms_norm.cuda.narrow_gradients(dy, x, x[0].clone(), 0.0)
    torch.testing.assert_close(dweight.double(), dy.double().sum(0), rtol=3e-7, atol=0)
