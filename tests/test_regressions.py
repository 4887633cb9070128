"""What fell against the stored results: each way to fall is fed doctored times and seen."""

import pytest

from kernels.measure.regressions import falls


def rows(direction="forward", shape=(8192, 32768), params=None, spread=None, **times):
    """Rows with doctored times; who is what goes by the name."""
    kinds = {"torch": "peer", "liger": "peer", "copy": "copy"}
    where = {"operation": "layer_norm", "direction": direction, "shape": list(shape), "dtype": "bfloat16"}
    where |= {"params": params or {}, "peer_spread": spread, "copy_spread": spread}
    return [
        where | {"contestant": name, "kind": kinds.get(name, "variant"), "median_ms": ms} for name, ms in times.items()
    ]


STORED = rows(ours=1.0, torch=3.0, liger=2.0, copy=0.9)


def fallen(now, stored=STORED):
    return [(fall.contestant, fall.kind, fall.stored, fall.now) for fall in falls(stored, now)]


def test_nothing_falls_within_the_slack_nor_on_a_machine_slower_in_all():
    assert fallen(STORED) == []
    assert fallen(rows(ours=1.15, torch=3.0, liger=2.0, copy=0.9)) == []
    assert fallen(rows(ours=10.0, torch=30.0, liger=20.0, copy=9.0)) == []
    assert fallen(rows(ours=0.5, torch=3.0, liger=2.0, copy=0.9)) == []


def test_a_slower_contestant_falls_in_both_ratios():
    assert fallen(rows(ours=2.0, torch=3.0, liger=2.0, copy=0.9)) == [
        ("ours", "peer", 2.0, 1.0),
        ("ours", "copy", 0.9, 0.45),
    ]


def test_a_fall_to_the_best_peer_alone_and_to_the_copy_alone():
    assert fallen(rows(ours=1.0, torch=3.0, liger=1.5, copy=0.9)) == [("ours", "peer", 2.0, 1.5)]
    assert fallen(rows(ours=1.0, torch=1.5, liger=2.0, copy=0.9)) == [("ours", "peer", 2.0, 1.5)]
    assert fallen(rows(ours=1.0, torch=3.0, liger=2.0, copy=0.5)) == [("ours", "copy", 0.9, 0.5)]


def test_a_peer_that_is_not_here_makes_nobody_faster():
    assert fallen(rows(ours=1.0, torch=3.0, copy=0.9)) == []
    assert fallen(rows(ours=2.0, torch=3.0, copy=0.9))[0] == ("ours", "peer", 3.0, 1.5)


def test_what_is_stored_and_was_not_timed_has_fallen():
    expected = [("ours", "peer", 2.0, None), ("ours", "copy", 0.9, None)]
    assert fallen(rows(torch=3.0, liger=2.0, copy=0.9)) == expected
    assert fallen([]) == expected
    assert fallen(rows(direction="backward", ours=1.0, torch=3.0, liger=2.0, copy=0.9)) == expected
    assert fallen(rows(shape=(1, 2), ours=1.0, torch=3.0, liger=2.0, copy=0.9)) == expected
    assert fallen(rows(ours=1.0, copy=0.9)) == expected[:1]


def test_a_contestant_that_is_not_stored_cannot_fall():
    assert fallen(rows(ours=1.0, new=100.0, torch=3.0, liger=2.0, copy=0.9)) == []


def test_rows_that_differ_in_params_alone_are_held_each_against_its_own():
    full, causal = rows(ours=2.0, torch=4.0), rows(params={"causal": True}, ours=1.0, torch=1.5)
    assert falls(full + causal, causal + full) == []
    slower = rows(params={"causal": True}, ours=1.5, torch=1.5)
    (fall,) = falls(full + causal, slower + full)
    assert (fall.case, fall.stored, fall.now) == ("8192×32768 bfloat16 causal=True", 1.5, 1.0)


# Two rungs of atomics had 0.39 of the best peer's speed on one day and 0.32 on another, on an H200, unchanged.


@pytest.mark.parametrize("known", ["stored", "now", "both"])
def test_a_ratio_that_spreads_much_may_fall_as_much(known):
    stored = rows(atomics=1.0, torch=0.39, spread=0.08 if known != "now" else 0.01)
    now = rows(atomics=1.0, torch=0.32, spread=0.08 if known != "stored" else 0.01)
    assert falls(stored, now) == []
    (fall,) = falls(stored, [row | {"median_ms": 1.3} if row["contestant"] == "atomics" else row for row in now])
    assert (fall.stored, round(fall.now, 3), round(fall.slack, 2)) == (0.39, 0.246, 0.24)


def test_the_same_fall_of_a_ratio_that_spreads_little_is_seen():
    (fall,) = falls(rows(ours=1.0, torch=0.39, spread=0.02), rows(ours=1.0, torch=0.32, spread=0.02))
    assert fall.slack == 0.1
    (fall,) = falls(rows(ours=1.0, torch=0.39), rows(ours=1.0, torch=0.32, spread=0.02))
    assert fall.slack == 0.15  # stored before spreads were
