"""What fell against the stored results: each way to fall is fed doctored times and seen."""

from kernels.measure.regressions import falls


def rows(direction="forward", shape=(8192, 32768), **times):
    """Rows with doctored times; who is what goes by the name."""
    kinds = {"torch": "peer", "liger": "peer", "copy": "copy"}
    where = {"operation": "layer_norm", "direction": direction, "shape": list(shape), "dtype": "bfloat16"}
    return [
        where | {"contestant": name, "kind": kinds.get(name, "variant"), "median_ms": ms} for name, ms in times.items()
    ]


STORED = rows(ours=1.0, torch=3.0, liger=2.0, copy=0.9)


def fallen(now, stored=STORED):
    return [(fall.contestant, fall.ratio, fall.stored, fall.now) for fall in falls(stored, now)]


def test_nothing_falls_within_the_slack_nor_on_a_machine_slower_in_all():
    assert fallen(STORED) == []
    assert fallen(rows(ours=1.15, torch=3.0, liger=2.0, copy=0.9)) == []
    assert fallen(rows(ours=10.0, torch=30.0, liger=20.0, copy=9.0)) == []
    assert fallen(rows(ours=0.5, torch=3.0, liger=2.0, copy=0.9)) == []


def test_a_slower_contestant_falls_in_both_ratios():
    assert fallen(rows(ours=2.0, torch=3.0, liger=2.0, copy=0.9)) == [
        ("ours", "of the best peer", 2.0, 1.0),
        ("ours", "of the copy", 0.9, 0.45),
    ]


def test_a_fall_to_the_best_peer_alone_and_to_the_copy_alone():
    assert fallen(rows(ours=1.0, torch=3.0, liger=1.5, copy=0.9)) == [("ours", "of the best peer", 2.0, 1.5)]
    assert fallen(rows(ours=1.0, torch=1.5, liger=2.0, copy=0.9)) == [("ours", "of the best peer", 2.0, 1.5)]
    assert fallen(rows(ours=1.0, torch=3.0, liger=2.0, copy=0.5)) == [("ours", "of the copy", 0.9, 0.5)]


def test_a_peer_that_is_not_here_makes_nobody_faster():
    assert fallen(rows(ours=1.0, torch=3.0, copy=0.9)) == []
    assert fallen(rows(ours=2.0, torch=3.0, copy=0.9))[0] == ("ours", "of the best peer", 3.0, 1.5)


def test_what_is_stored_and_was_not_timed_has_fallen():
    expected = [("ours", "of the best peer", 2.0, None), ("ours", "of the copy", 0.9, None)]
    assert fallen(rows(torch=3.0, liger=2.0, copy=0.9)) == expected
    assert fallen([]) == expected
    assert fallen(rows(direction="backward", ours=1.0, torch=3.0, liger=2.0, copy=0.9)) == expected
    assert fallen(rows(shape=(1, 2), ours=1.0, torch=3.0, liger=2.0, copy=0.9)) == expected
    assert fallen(rows(ours=1.0, copy=0.9)) == expected[:1]


def test_a_contestant_that_is_not_stored_cannot_fall():
    assert fallen(rows(ours=1.0, new=100.0, torch=3.0, liger=2.0, copy=0.9)) == []
