"""Measuring: each kind of verdict is fed doctored times and seen to fail."""

import json
import re
import sys

import pytest
import torch

import kernels
from kernels import measure
from kernels.measure.compare import Comparison, Row
from kernels.measure.race import Race
from kernels.measure.results import FOLDER, Results, file_name, stored
from kernels.measure.timing import Spread
from kernels.operation import Variant


def race(device: str, **times: float) -> Race:
    return Race(device, {name: Spread(ms, ms, ms) for name, ms in times.items()})


def row(contestant: str, ms: float) -> Row:
    return Row(
        operation="layer_norm",
        contestant=contestant,
        kind="variant",
        level=4,
        direction="forward",
        shape=(8192, 32768),
        dtype="bfloat16",
        median_ms=ms,
        p20_ms=ms,
        p80_ms=ms,
        gbps=1.0,
        ceiling_fraction=1.0,
        max_error_ratio=0.5,
    )


def comparison(device: str, **times: float) -> Comparison:
    return Comparison("doctored", device, tuple(row(name, ms) for name, ms in times.items()), {})


def results(**times: float) -> Results:
    return Results({}, {}, comparison("cuda", **times).as_data())


def test_a_claim_of_three_is_judged_on_a_cpu(capsys):
    measure.verdict(race("cpu", fast=1.0, slow=3.1), "fast", than="slow", at_least=3)
    said = capsys.readouterr().out
    assert said == "not contradicted here: fast at least 3× as fast as slow\n"
    with pytest.raises(measure.Contradicted, match=r"2\.90× as fast as slow here, not 3\.00×"):
        measure.verdict(race("cpu", fast=1.0, slow=2.9), "fast", than="slow", at_least=3)


def test_a_smaller_claim_is_not_judged_on_a_cpu():
    measure.verdict(comparison("cpu", fast=1.0, slow=0.5), "fast", than="slow", at_least=1.5)


def test_on_a_gpu_the_ratio_is_held_against_the_stored_one():
    there = results(fast=1.0, slow=2.0)
    measure.verdict(comparison("cuda", fast=1.0, slow=1.75), "fast", than="slow", at_least=1.2, results=there)
    with pytest.raises(measure.Contradicted, match=r"stored 2\.00×"):
        measure.verdict(comparison("cuda", fast=1.0, slow=1.65), "fast", than="slow", at_least=1.2, results=there)


def test_on_a_gpu_a_claim_beyond_the_stored_ratio_fails():
    there = results(fast=1.0, slow=2.0)
    with pytest.raises(measure.Contradicted):
        measure.verdict(comparison("cuda", fast=1.0, slow=2.0), "fast", than="slow", at_least=2.5, results=there)


def test_on_a_gpu_a_shape_that_is_not_stored_is_judged_from_three_on():
    with pytest.raises(measure.Contradicted):
        measure.verdict(
            comparison("cuda", fast=1.0, slow=2.0), "fast", than="slow", at_least=3, results=results(other=1.0)
        )


def test_on_a_gpu_without_results_nothing_but_correctness_is_judged(monkeypatch):
    from kernels.measure import verdict

    module = sys.modules[verdict.__module__]
    monkeypatch.setattr(module, "stored", lambda: None)
    verdict(comparison("cuda", fast=1.0, slow=0.5), "fast", than="slow", at_least=5)


def test_a_cpu_is_not_held_against_a_gpu():
    there = results(fast=1.0, slow=10.0)
    measure.verdict(comparison("cpu", fast=1.0, slow=4.0), "fast", than="slow", at_least=3, results=there)


def test_the_stored_row_must_have_the_same_dtype():
    there = results(fast=1.0, slow=10.0)
    for stored_row in there.rows:
        stored_row["dtype"] = "float32"
    measure.verdict(comparison("cuda", fast=1.0, slow=4.0), "fast", than="slow", at_least=3, results=there)


@pytest.mark.parametrize("at_least", [1, 0.5, 0, -1, float("nan")])
def test_a_claim_that_says_nothing_is_refused(at_least):
    with pytest.raises(ValueError, match="at_least"):
        measure.verdict(comparison("cpu", fast=1.0, slow=2.0), "fast", than="slow", at_least=at_least)


def test_a_claim_that_nobody_judges_is_refused():
    with pytest.raises(ValueError, match="claim 3 or more"):
        measure.verdict(race("cpu", fast=1.0, slow=2.0), "fast", than="slow", at_least=2.9)
    with pytest.raises(ValueError, match="the contestant itself"):
        measure.verdict(race("cpu", fast=1.0, slow=2.0), "fast", than="fast", at_least=3)


def test_ratios_come_from_the_times_and_the_copy_moves_the_same_bytes(monkeypatch):
    """With doctored times: a variant that takes twice the copy's time reaches half of it."""
    compare_module = sys.modules[measure.compare.__module__]
    op = kernels.operation("layer_norm")

    def doctored(contestants, inputs, device, prepare):
        data = inputs(0)
        assert data["source"].nbytes + data["target"].nbytes == op.cost(kernels.Case((8, 32))).bytes
        outputs = {name: call(data) for name, call in contestants.items()}
        return {name: [1.0, 1.0] if name == "copy" else [2.0, 2.0] for name in contestants}, outputs, data

    monkeypatch.setattr(compare_module, "time_together", doctored)
    compared = measure.compare(op, shape=(8, 32), device="cpu")
    assert compared["native/eager"].ceiling_fraction == 0.5
    assert compared["native/eager"].median_ms == 2.0


def test_a_copy_that_does_not_copy_is_found(monkeypatch):
    compare_module = sys.modules[measure.compare.__module__]

    def doctored(contestants, inputs, device, prepare):
        data = inputs(0)
        outputs = {name: call(data) for name, call in contestants.items()}
        data["target"].zero_()
        return {name: [1.0, 1.0] for name in contestants}, outputs, data

    monkeypatch.setattr(compare_module, "time_together", doctored)
    with pytest.raises(ArithmeticError, match="the copy differs"):
        measure.compare(kernels.operation("layer_norm"), shape=(8, 32), device="cpu")


def test_an_unknown_contestant_is_named():
    with pytest.raises(KeyError, match="quick: not timed here; timed were fast, slow"):
        measure.verdict(race("cpu", fast=1.0, slow=2.0), "quick", than="slow", at_least=3)


def test_a_wrong_result_gets_no_time():
    op = kernels.operation("layer_norm")
    wrong = next(variant for variant in op.wrong if variant.name == "no-bias")
    with pytest.raises(ArithmeticError, match="native/no-bias"):
        measure.compare(op, shape=(8, 32), variants=(wrong,), device="cpu")


def test_a_race_between_different_results_gets_no_time():
    x = torch.ones(4)
    with pytest.raises(ArithmeticError, match="two and one give different results"):
        measure.race({"one": lambda: x, "two": lambda: x + 1}, device="cpu", rounds=1)


def test_compare_has_peers_and_a_copy_and_says_who_is_absent():
    op = kernels.operation("layer_norm")
    never = Variant(4, "never", lambda **inputs: None, "", (), unsupported=lambda case, machine: "not today")
    compared = measure.compare(op, shape=(8, 32), variants=(op["native"], never), device="cpu")
    assert {row.contestant for row in compared.rows} >= {"native/eager", "torch", "torch.compile", "copy"}
    assert compared.absent["triton/never"] == "not today"
    assert compared["copy"].ceiling_fraction == pytest.approx(1)
    assert compared["native/eager"].gbps == pytest.approx(
        op.cost(kernels.Case((8, 32))).bytes / compared["native/eager"].median_ms / 1e6
    )


def test_a_results_file_is_plain_data(tmp_path):
    path = tmp_path / file_name("NVIDIA H200")
    assert path.name == "h200.json"
    Results({"gpu": "NVIDIA H200"}, {"copy_gbps": 4282.123456}, comparison("cuda", fast=1.23456789).as_data()).save(
        path
    )
    data = json.loads(path.read_text())
    assert data["machine"]["gpu"] == "NVIDIA H200"
    assert data["ceilings"] == {"copy_gbps": 4282.1}
    assert data["rows"][0]["shape"] == [8192, 32768]
    assert data["rows"][0]["median_ms"] == 1.2346
    assert Results(**data).find(contestant="fast", shape=[8192, 32768])["dtype"] == "bfloat16"
    assert Results(**data).find(contestant="slow") is None


def test_the_figure_of_the_readme_shows_the_stored_numbers():
    from kernels.measure.ladder import GPU, SHAPE, ladder

    drawn = re.findall(r">([^<>]+)</text>", (FOLDER.parent / "ladder.svg").read_text())
    (bars,) = ladder(stored(GPU), "layer_norm", SHAPE).data
    assert len(bars.text) >= 9
    for text in (*bars.text, *bars.y):
        assert text in drawn, "python -m kernels.measure.ladder book/ladder.svg draws it anew"


def test_there_are_no_results_of_an_unknown_gpu():
    assert stored("NVIDIA GT 210") is None


def test_ceilings_on_a_cpu_are_positive():
    found = measure.ceilings("cpu")
    assert found["copy_gbps"] > 0.1
    assert found["matmul_tflops"] > 0.001
