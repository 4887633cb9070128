"""Measuring: each kind of verdict is fed doctored times and seen to fail."""

import re
import sys

import pytest
import torch

import kernels
from kernels import measure
from kernels.measure import rounds
from kernels.measure.ceilings import compute_bound
from kernels.measure.compare import Comparison, Row
from kernels.measure.race import Race
from kernels.measure.results import FOLDER, Results, stored
from kernels.measure.timing import Spread
from kernels.operation import Cost, Variant


def race(device: str, **times: float) -> Race:
    return Race(device, {name: Spread(ms, ms, ms) for name, ms in times.items()})


def row(contestant: str, ms: float, **fields) -> Row:
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
        max_error_ratio=0.5,
        **fields,
    )


def comparison(device: str, params=None, spread=None, **times: float) -> Comparison:
    fields = {"params": params or {}, "copy_spread": spread}
    return Comparison("doctored", device, tuple(row(name, ms, **fields) for name, ms in times.items()), {})


def results(**times: float) -> Results:
    return Results({}, {}, comparison("cuda", **times).as_data())


def causal_and_full() -> Results:
    """The causal ones are twice as fast as full ones at "slow", and as fast at "fast"."""
    causal = comparison("cuda", params={"causal": True}, fast=1.0, slow=2.0)
    return Results({}, {}, comparison("cuda", fast=1.0, slow=4.0).as_data() + causal.as_data())


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


def test_on_a_gpu_the_slack_is_that_of_the_rows():
    def judged(slow, before, now):
        there = results(fast=1.0, slow=2.0, spread=before)
        here = comparison("cuda", fast=1.0, slow=slow, spread=now)
        measure.verdict(here, "fast", than="slow", at_least=1.2, results=there)

    judged(1.81, 0.01, 0.01)
    judged(1.3, 0.01, 0.12)
    for slow, before, now in ((1.79, 0.01, 0.01), (1.25, 0.12, 0.01)):
        with pytest.raises(measure.Contradicted):
            judged(slow, before, now)


def test_on_a_gpu_the_stored_row_must_have_the_same_params():
    for params, ratio in (({}, 4.0), ({"causal": True}, 2.0)):
        here = comparison("cuda", params=params, fast=1.0, slow=0.9 * ratio)
        measure.verdict(here, "fast", than="slow", at_least=1.2, results=causal_and_full())
        here = comparison("cuda", params=params, fast=1.0, slow=0.8 * ratio)
        with pytest.raises(measure.Contradicted, match=rf"stored {ratio:.2f}×"):
            measure.verdict(here, "fast", than="slow", at_least=1.2, results=causal_and_full())


def test_the_ladder_tells_params_apart():
    from kernels.measure.ladder import ladder

    there = causal_and_full()
    there.machine["gpu"] = "A GPU"
    for one in there.rows:
        one["gbps"] = 1 / one["median_ms"]
    with pytest.raises(ValueError, match="bfloat16, 8192×32768 bfloat16 causal=True"):
        ladder(there, [8192, 32768])
    figure = ladder(there, [8192, 32768], params={"causal": True})
    assert figure.data[0].x == (0.5, 1.0)
    assert "causal=True" in figure.layout.title.text
    with pytest.raises(ValueError, match="no row"):
        ladder(there, [8192, 32768], params={"causal": False})


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
    monkeypatch.setattr(module, "stored", lambda operation: None)
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
    op = kernels.operation("layer_norm")

    def doctored(contestants, inputs, device, rounds, prepare):
        data = inputs(0)
        assert data["source"].nbytes + data["target"].nbytes == op.cost(kernels.Case((8, 32))).bytes
        outputs = {name: call(data) for name, call in contestants.items()}
        twice = [2.0] * 5 + [4.0] * 5 + [2.0] * 5  # three rounds
        return {name: [1.0] * 15 if name == "copy" else twice for name in contestants}, outputs, data

    monkeypatch.setattr(rounds, "time_together", doctored)
    compared = measure.compare(op, shape=(8, 32), device="cpu")
    assert compared["native/eager"].ceiling_fraction == 0.5
    assert compared["native/eager"].median_ms == 2.0
    assert compared["native/eager"].copy_spread == pytest.approx(0.12**0.5)  # of 0.5, 0.25 and 0.5
    assert compared["native/eager"].peer_spread == 0  # the peers were slower in the same round

    # The same, where the matrix rate is the nearer ceiling.
    slow_matrices = {"copy_gbps": 1e6, "matmul_tflops": 1e-6}
    compared = measure.compare(op, shape=(8, 32), device="cpu", ceilings=slow_matrices)
    ours, copy = compared["native/eager"], compared["copy"]
    assert ours.tflops == 8 * 8 * 32 / 2.0 / 1e9
    assert ours.matrix_fraction == pytest.approx(ours.tflops / 1e-6)
    assert (ours.gbps, ours.ceiling_fraction, copy.tflops, copy.ceiling_fraction) == (None, None, None, 1)


def test_a_point_is_bound_by_what_takes_longer():
    h200 = {"copy_gbps": 4000.0, "matmul_tflops": 800.0}  # 200 operations a byte
    assert compute_bound(Cost(bytes=10, flops=2001), h200)
    assert not compute_bound(Cost(bytes=10, flops=1999), h200)


def test_a_copy_that_does_not_copy_is_found(monkeypatch):
    def doctored(contestants, inputs, device, rounds, prepare):
        data = inputs(0)
        outputs = {name: call(data) for name, call in contestants.items()}
        data["target"].zero_()
        return {name: [1.0, 1.0] for name in contestants}, outputs, data

    monkeypatch.setattr(rounds, "time_together", doctored)
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


def test_the_figure_of_the_readme_shows_the_stored_numbers():
    from kernels.measure.ladder import GPU, SHAPE, ladder

    drawn = re.findall(r">([^<>]+)</text>", (FOLDER.parent / "ladder.svg").read_text())
    figure = ladder(stored("layer_norm", GPU), SHAPE)
    (bars,) = figure.data
    assert len(bars.text) >= 9
    for text in (*bars.text, *bars.y, figure.layout.title.text, figure.layout.xaxis.title.text):
        assert text in drawn, "python -m kernels.measure.ladder book/ladder.svg draws it anew"


def test_the_chart_by_width_has_every_stored_row_in_the_order_of_the_ladder():
    from kernels.measure.ladder import GPU, by_width

    op, there = kernels.operation("layer_norm"), stored("layer_norm", GPU)
    frames = by_width(op, there).figure.frames
    assert [frame.name for frame in frames[::4]] == ["forward, 1,024 columns", "backward, 1,024 columns"]
    assert sum(len(frame.data[0].y) for frame in frames) == sum(row["kind"] != "copy" for row in there.rows)
    last = frames[3].data[0]
    assert last.y[: len(op.forward)] == tuple(variant.key for variant in op.forward)
    row = there.find(contestant="cuda/vector", shape=[8192, 32768], direction="forward")
    assert last.x[last.y.index("cuda/vector")] == row["ceiling_fraction"]
    there.rows.append(row)
    with pytest.raises(ValueError, match="a contestant twice"):
        by_width(op, there)


def test_ceilings_on_a_cpu_are_positive():
    found = measure.ceilings("cpu")
    assert found["copy_gbps"] > 0.1
    assert found["matmul_tflops"] > 0.001
