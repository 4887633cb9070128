"""What chapters read besides the results: the compilers' texts and the cost of a call."""

import pytest
import torch

import kernels
from book.recorders import calls
from kernels.measure.recorded import compilers

GPU = "NVIDIA H200"


def test_every_bench_case_has_a_text_of_one_kernel():
    written = compilers.stored(GPU)["written"]
    assert [tuple(row["shape"]) for row in written] == [c.shape for c in kernels.operation("layer_norm").cases["bench"]]
    for row in written:
        (kernel,) = compilers.triton_kernels(row["source"])
        assert kernel.startswith("def triton_")
        assert "tl.store" in kernel
        assert 0 < row["cached_s"] < row["cold_s"]


def test_kernels_are_cut_out_of_a_module():
    text = (
        "import triton\n@triton.jit\ndef a(x):\n    pass\n''', device)\nb = 1\n@triton.jit\ndef c(y):\n    pass\n'''\n"
    )
    assert compilers.triton_kernels(text) == ["def a(x):\n    pass", "def c(y):\n    pass"]
    assert compilers.triton_kernels("import triton\n") == []


def test_each_level_launches_no_more_kernels_than_the_one_before():
    launched = {row["level"]: len(row["kernels"]) for row in compilers.stored(GPU)["launches"]}
    assert launched["native"] > launched["torchscript"] > launched["compiled"] == 1


@pytest.mark.parametrize("way", calls.ways())
def test_every_way_to_call_computes_layer_norm(way):
    op = kernels.operation("layer_norm")
    inputs = op.inputs(shape=(5, 33), dtype="float32")
    torch.testing.assert_close(calls.ways()[way](*inputs.values(), 1e-5), op["native"](**inputs))


def test_every_way_is_timed_with_what_it_has(monkeypatch):
    monkeypatch.setattr(calls, "medians", lambda timed: {key: call() for key, call in timed.items()})
    found = calls.measured("cpu", calls.ways(), lambda x, *rest: {("cuda", "launch_us"): lambda: x.shape})
    rows = {row["way"]: row for row in found["calls"]}
    assert list(rows) == list(calls.ways())
    assert {row["us"].shape for row in rows.values()} == {calls.SHAPE}
    assert not rows["raw kernel"]["us_with_gradient"].requires_grad
    assert rows["the same, and autograd"]["us_with_gradient"].requires_grad
    assert "us_with_backward" in rows["raw kernel"]
    assert found["parts"] == [{"level": "cuda", "launch_us": calls.SHAPE}]


def test_calls_are_timed_in_turns_and_with_gradients_where_they_are_wanted(monkeypatch):
    monkeypatch.setattr(calls, "CALLS", 2 * calls.TURNS)
    made, kinds = [], ("us", "us_with_backward")
    timed = {("way", kind): lambda kind=kind: made.append((kind, torch.is_grad_enabled())) for kind in kinds}
    assert calls.medians(timed, turns=2).keys() == timed.keys()
    assert made == 3 * [("us", False), ("us", False), ("us_with_backward", True), ("us_with_backward", True)]
