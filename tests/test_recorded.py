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


def test_every_way_is_timed_on_an_input_without_rows(monkeypatch):
    monkeypatch.setattr(calls, "microseconds", lambda call, x, *rest: (x.shape, call(x, *rest).requires_grad))
    rows = {row["way"]: row for row in calls.measured("cpu")}
    assert list(rows) == list(calls.ways())
    assert {row["us"] for row in rows.values()} == {((0, 1024), False)}
    assert not rows["raw kernel"]["us_with_gradient"][1]
    assert rows["the same, and autograd"]["us_with_gradient"][1]
