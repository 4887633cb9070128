"""Stored results: a file for each operation and GPU, in rows that say what they are a time of."""

import json
from pathlib import Path

import pytest
from docutils import nodes

from kernels.measure import results
from kernels.measure.compare import Comparison, Row
from kernels.operation import Case

FULL = Case((8192, 32768), "bfloat16")
CAUSAL = Case((8192, 32768), "bfloat16", params={"causal": True})


def rows(case=FULL, **times):
    who = {"kind": "peer", "level": None, "max_error_ratio": 0.5} | results.where("attention", case, "forward")
    timed = tuple(Row(contestant=name, median_ms=ms, p20_ms=ms, p80_ms=ms, **who) for name, ms in times.items())
    return Comparison("", "cuda", timed, {}).as_data()


def test_a_file_is_plain_data_without_what_is_missing_or_as_usual(tmp_path):
    path = results.path_of("attention", "NVIDIA H200", tmp_path)
    assert path == tmp_path / "operations" / "attention" / "h200.json"
    written = rows(torch=1.23456789) + rows(CAUSAL, torch=1.0)
    results.Results({"gpu": "NVIDIA H200"}, {"copy_gbps": 4282.123456}, written).save(path)
    data = json.loads(path.read_text())
    assert data["machine"]["gpu"] == "NVIDIA H200"
    assert data["ceilings"] == {"copy_gbps": 4282.1}
    full, causal = data["rows"]
    assert (full["shape"], full["median_ms"], full["level"]) == ([8192, 32768], 1.2346, None)
    assert full.keys() & {"layout", "params", "sizes", "gbps", "peer_spread"} == set()
    assert causal["params"] == {"causal": True}
    assert results.load(path).rows == [results.DEFAULTS | full, results.DEFAULTS | causal]


def test_an_interrupted_write_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "h200.json"
    before = results.Results({}, {}, rows(torch=1.0))
    before.save(path)
    text = path.read_text()
    monkeypatch.setattr(results.os, "replace", lambda *paths: (_ for _ in ()).throw(KeyboardInterrupt))
    before.put(rows(CAUSAL, torch=2.0))
    with pytest.raises(KeyboardInterrupt):
        before.save(path)
    assert path.read_text() == text


@pytest.mark.parametrize(
    "other",
    [
        CAUSAL,
        Case((8192, 32768), "bfloat16", sizes={"kv_heads": 4}),
        Case((8192, 32768), "bfloat16", layout="rows"),
        Case((8192, 32768), "float16"),
        Case((32768, 8192), "bfloat16"),
    ],
)
def test_rows_of_another_case_are_other_rows(other):
    stored = results.Results({}, {}, rows(torch=1.0))
    stored.put(rows(other, torch=2.0))
    assert [row["median_ms"] for row in stored.rows] == [1.0, 2.0]
    stored.put(rows(other, torch=3.0, flash=1.0))
    assert [row["median_ms"] for row in stored.rows] == [1.0, 3.0, 1.0]
    assert len(set(map(results.described, stored.rows))) == 2


def test_params_have_one_point_however_they_are_written():
    one, other = ({"causal": True, "window": (128, 0)}, {"window": [128, 0], "causal": True})
    (row,) = rows(Case((4, 8), params=one), torch=1.0)
    assert results.point(row) == results.point(results.where("attention", Case((4, 8), params=other), "forward"))


def test_one_row_is_found_or_none_or_it_is_said_that_there_are_several():
    stored = results.Results({}, {}, rows(torch=1.0) + rows(CAUSAL, torch=0.6))
    assert stored.find(contestant="torch", params={})["median_ms"] == 1.0
    assert stored.find(contestant="torch", params={"causal": True})["median_ms"] == 0.6
    assert stored.find(contestant="flash") is None
    with pytest.raises(LookupError, match="fits 2 rows; name a field in which they differ, such as params"):
        stored.find(contestant="torch")


def test_there_are_no_results_of_an_unknown_gpu_or_operation():
    assert results.stored("layer_norm", "NVIDIA H200").find(
        contestant="torch", shape=[32768, 4096], direction="forward"
    )
    assert results.stored("layer_norm", "NVIDIA GT 210") is None
    assert results.stored("unknown", "NVIDIA H200") is None


def test_what_is_in_no_commit_has_none(monkeypatch):
    monkeypatch.delenv("KERNELS_COMMIT", raising=False)
    said = {"status": "", "rev-parse": "abc"}
    monkeypatch.setattr(results, "_output", lambda git, verb, *rest: said[verb])
    assert results.commit() == "abc"
    said["status"] = " M kernels/ops/layer_norm/cuda.py"
    assert results.commit() is None
    monkeypatch.setenv("KERNELS_COMMIT", "def")
    assert results.commit() == "def"


def test_the_page_counts_the_drawn_points_of_each_level_that_are_reached(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "book" / "_ext"))
    drawn = pytest.importorskip("drawn")
    point = {"operation": "op", "direction": "forward", "dtype": "float32", "max_error_ratio": 0.1}

    def rows(width, four, five):
        times = (("triton/a", "variant", 4, four), ("cuda/b", "variant", 5, five), ("torch", "peer", None, 1.0))
        of = [point | {"contestant": n, "kind": k, "level": at, "median_ms": ms} for n, k, at, ms in times]
        return [row | {"shape": [2, width]} for row in of]

    data = {"op": results.Results({"gpu": "a GPU", "seed": 3}, {}, rows(8, 1.0, 2.0) + rows(9, 0.01, 0.5))}
    cells = [entry.astext() for entry in drawn.summary(data).findall(nodes.entry)]
    assert cells[6:12] == ["op", "level 4", "3", "2 of 2", "1 of 1", "50.50"]
    assert cells[12:] == ["op", "level 5", "3", "1 of 2", "1 of 2", "1.25"]
    assert "The 1 that have not reached" in drawn.missed(data, {}).astext()
