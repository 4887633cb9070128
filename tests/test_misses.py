"""Missed goals: which they are, and what is said of them."""

from pathlib import Path

import pytest
from missed_rows import rows

from book.recorders.profile_metrics import asked, numbers
from kernels.measure import Results
from kernels.measure.recorded import misses, profile
from kernels.measure.results import write

TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"


def test_the_best_of_each_level_is_missed_where_it_is_slower_than_the_best_peer_and_the_copy():
    faster = {"liger": (None, 0.9)}
    found = misses.misses(rows() + rows((8, 17), faster) + rows((8, 18), {"copy": (None, 1.05)}))
    assert [(*row["shape"], row["contestant"], peer["contestant"]) for row, peer in found] == [
        (8, 16, "triton/passes", "liger"),
        (8, 17, "triton/passes", "liger"),
        (8, 17, "cuda/reread", "liger"),
    ]
    alone = [row for row in rows((8, 17)) if row["kind"] != "peer"]
    assert [peer for _, peer in misses.misses(alone)] == [None, None]


def test_the_share_of_the_tensor_cores_is_a_number_of_a_kernel():
    metrics = {TENSOR: "61.25", "dram__throughput.avg.pct_of_peak_sustained_elapsed": "12"}
    found = numbers(metrics)
    assert (found["tensor_percent"], found["dram_percent"]) == (61.25, 12)
    assert "tensor_percent" in profile.COLUMNS and set(misses.COLUMNS) <= set(profile.COLUMNS)
    there = [name.split(".")[0] for name in metrics] + ["dram__bytes_read"]
    assert set(asked(there)) == {*metrics, "dram__bytes_read.sum"}
    assert asked(there, ["tensor_percent"]) == [TENSOR]
    assert asked(there[1:], ["tensor_percent"]) == []


KERNEL = {
    "us": 9.0,
    "dram_percent": 62.4,
    "stalls": {"long_scoreboard": 8.123, "selected": 1.0, "barrier": 2, "wait": 1.5},
}
FASTEST = {"us": 7.0, "dram_percent": 71.0, "stalls": {"not_selected": 6.0, "short_scoreboard": 123.4}}


def said(ours, peer=None):
    (ours_row, *_), peer_row = misses.misses(rows())[0], rows()[5]
    profiles = {misses.key(ours_row): ours} | ({misses.key(peer_row): peer} if peer else {})
    return misses.why(ours_row, peer_row, profiles)


def test_why_is_the_share_of_a_rate_and_the_longest_waits_of_ours_and_of_the_fastest():
    alone = "memory at 62 %; waits for: global memory 8.1, barrier 2.0"
    assert said([KERNEL]) == alone
    assert said([KERNEL], [FASTEST]) == f"{alone} (liger: 71 %, shared memory 123)"
    short = KERNEL | {"us": 1.0, "dram_percent": 1.0}
    assert said([short, KERNEL], [FASTEST, short]).startswith(f"longest of 2 kernels: {alone} (liger, 2 kernels: 71 %")
    tensor = [one | {"tensor_percent": percent} for one, percent in ((KERNEL, 70.2), (FASTEST, 30.0))]
    assert said(tensor[:1], tensor[1:]).startswith("tensor cores at 70 %; waits")
    assert "(liger: 30 %," in said(tensor[:1], tensor[1:])


def test_nothing_is_said_of_a_row_that_was_timed_anew():
    ours, peer = misses.misses(rows())[0]
    profiles = {misses.key(ours): [KERNEL], misses.key(peer): [FASTEST]}
    assert misses.why(ours | {"median_ms": 1.11}, peer, profiles) is None
    assert "liger" not in misses.why(ours, peer | {"median_ms": 0.99}, profiles)


def test_every_wait_has_a_short_name():
    assert set(profile.STALLS) - set(profile.WAITS) == {"selected", "not_selected"}
    assert set(profile.WAITS) < set(profile.STALLS)


def test_the_page_says_why_where_that_is_recorded(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "book" / "_ext"))
    missed = pytest.importorskip("missed")
    data = {"layer_norm": Results({}, {}, rows((8, 17), {"copy": (None, 1.04)}) + rows())}
    path = tmp_path / "h200.json"
    write(path, {"machine": {}}, "profiles", [misses.profile_of(rows()[1], [KERNEL | {"name": "passes"}])])

    def cells(reasons):
        (table,) = missed.missed(data, reasons).findall(missed.nodes.table)
        return [
            [entry.astext() for entry in row.findall(missed.nodes.entry)] for row in table.findall(missed.nodes.row)
        ]

    head, first, second = cells(misses.load(path))
    assert (head[-1], len(head)) == ("Why", 8)
    assert first[2:] == ["8 × 16, float32", "triton/passes", "1100.0", "0.91", "0.45", said([KERNEL])]
    assert second[2:] == ["8 × 17, float32", "triton/passes", "1100.0", "0.91", "0.95", "–"]
    assert [line[:7] for line in (head, first, second)] == cells(misses.load(tmp_path / "none.json"))
    (table,) = missed.missed(data, misses.load(path)).findall(missed.nodes.table)
    classes = [entry["classes"] for entry in list(table.findall(missed.nodes.row))[1]]
    assert classes == 4 * [[]] + 3 * [["number"]] + [["prose"]]
