"""Ratios to the best peer and to the copy: what counts as reached, what is timed again, and by how much they spread."""

import pytest

from kernels.measure import ratios


def row(kind, ms, **fields):
    where = {"operation": "attention", "direction": "forward", "shape": [4, 16, 4096, 128], "dtype": "bfloat16"}
    return where | {"kind": kind, "contestant": kind, "median_ms": ms} | fields


@pytest.mark.parametrize(
    ("peer", "copy", "expected"),
    [
        (0.95, 0.1, True),
        (0.94, 0.94, False),
        (0.1, 0.95, True),
        (None, 0.94, False),
        (None, 0.95, True),
        (2.0, 0.3, True),
    ],
)
def test_reached_is_0_95_of_the_best_peer_or_of_the_copy(peer, copy, expected):
    ours = row("variant", 1.0)
    others = [row("copy", copy)] + ([row("peer", peer), row("peer", 9.0)] if peer else [])
    assert ratios.reached(ours, [ours, *others]) is expected


def test_a_ratio_is_within_rows_of_the_same_params_and_sizes():
    ours = row("variant", 1.0, params={"causal": True})
    rows = [ours, row("peer", 0.5, params={"causal": True}), row("peer", 0.1), row("copy", 0.2, sizes={"kv_heads": 4})]
    assert ratios.ratio(ours, rows, "peer") == 0.5
    assert ratios.ratio(ours, rows, "copy") is None


@pytest.mark.parametrize(("ours", "expected"), [(0.9, False), (0.96, True), (1.0, True), (1.17, True), (1.18, False)])
def test_a_variant_between_0_85_and_1_05_of_its_better_ratio_is_in_doubt(ours, expected):
    kinds = {"ours": "variant", "slow": "variant", "torch": "peer", "liger": "peer", "copy": "copy"}
    medians = {"ours": ours, "slow": 20.0, "torch": 3.0, "liger": 1.0, "copy": 0.5}
    assert ratios.in_doubt(medians, kinds) is expected


def test_the_deviation_is_that_of_the_ratio_round_by_round():
    ours = [1.0, 1.0, 9.0, 2.0, 2.0, 2.0, 1.0, 7.0, 1.0]  # rounds of three calls, whose medians are 1, 2 and 1
    same = [10 * ms for ms in ours]
    assert ratios.deviation(ours, same, calls=3) == pytest.approx(0, abs=1e-12)  # a slower clock is slower for all
    half_then_whole = ratios.deviation(ours, [1.0] * 9, calls=3)  # ratios 1, 0.5 and 1
    assert half_then_whole == pytest.approx(0.28868 / 0.83333, rel=1e-4)
    assert ratios.deviation(ours[:6], [1.0] * 6, calls=3) is None


def test_the_slack_is_three_deviations_of_the_widest_with_a_floor():
    assert ratios.slack(0.0) == ratios.slack(0.03, 0.01) == ratios.FLOOR
    assert ratios.slack(0.02, 0.09) == pytest.approx(0.27)
    assert ratios.slack(None) == ratios.slack(0.01, None) == ratios.FLOOR_WITHOUT_SPREAD
    assert ratios.slack(None, 0.09) == pytest.approx(0.27)
