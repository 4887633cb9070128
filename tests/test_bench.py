"""What a bench times, stores as it goes, leaves when the time is up, and goes on with."""

import json
from dataclasses import replace

import pytest

import kernels
from kernels.measure import bench as benching
from kernels.measure import results
from kernels.measure.bench import Bench, points
from kernels.measure.compare import Comparison, Row
from kernels.measure.drawn import drawn
from kernels.ops.matmul.cases import LAYERS
from kernels.row_cases import DTYPES

CASES = tuple(kernels.Case((8, width), params=params) for width in (16, 32) for params in ({}, {"eps": 0.1}))
NAMES = [f"{case.shape[1]} {dict(case.params)} {way}" for case in CASES for way in ("forward", "backward")]


@pytest.fixture
def ops():
    op = replace(kernels.operation("layer_norm"), cases={"bench": CASES, "model": CASES[:1]})
    return [op, replace(op, name="other", backward_cost=None)]


@pytest.fixture
def machine(monkeypatch):
    """A machine whose comparisons take a minute each, on a clock of its own. `timed` says which; `fail` raises at one."""

    class Machine:
        facts = {
            "gpu": "NVIDIA H200",
            "driver": "580",
            "versions": {"torch": "2.11"},
            "date": "2026-11-20",
            "commit": "abc",
        }
        timed: list = []
        fail = None
        now = 0.0

        def compare(self, op, case, variants, device, direction, ceilings):
            name = f"{case.shape[1]} {dict(case.params)} {direction}"
            if name == self.fail:
                raise KeyboardInterrupt
            self.timed.append(name)
            self.now += 60
            where = results.where(op.name, case, direction)
            who = {"contestant": "torch", "kind": "peer", "level": None, "max_error_ratio": 0.5}
            return Comparison("", device, (Row(**where, **who, median_ms=self.now, p20_ms=1.0, p80_ms=1.0),), {})

    machine = Machine()
    machine.timed = []
    monkeypatch.setattr(benching, "compare", machine.compare)
    monkeypatch.setattr(benching, "ceilings", lambda device: {"copy_gbps": 4000.0})
    monkeypatch.setattr(benching, "facts", lambda: dict(machine.facts))
    monkeypatch.setattr(benching.time, "monotonic", lambda: machine.now)
    return machine


def stored(folder, operation="layer_norm"):
    return json.loads((folder / "operations" / operation / "h200.json").read_text())


def go(ops, folder, minutes=60, fresh=False):
    run = Bench(points(ops, "cuda"), "cuda", minutes, folder, fresh)
    return len(list(run)), run


def test_what_is_timed(ops):
    assert [(at.case, at.direction) for at in points(ops[:1], "cuda")] == [
        (case, way) for case in CASES for way in ("forward", "backward")
    ]
    assert [(at.op.name, at.case) for at in points(ops[1:], "cuda")] == [("other", case) for case in CASES]
    assert [str(at) for at in points(ops, "cuda", quick=True)] == [
        "layer_norm forward 8×16 float32",
        "layer_norm backward 8×16 float32",
        "other forward 8×16 float32",
    ]
    assert len(points(ops, "cpu")) == 3


def test_an_interrupted_run_loses_one_comparison_and_the_next_goes_on(ops, machine, tmp_path):
    machine.fail = NAMES[3]
    with pytest.raises(KeyboardInterrupt):
        go(ops[:1], tmp_path)
    assert len(stored(tmp_path)["rows"]) == 3
    machine.fail, machine.timed = None, []
    machine.facts = machine.facts | {"date": "2026-11-21"}
    assert go(ops[:1], tmp_path)[0] == 5
    assert machine.timed == NAMES[3:]
    file = stored(tmp_path)
    assert [row["median_ms"] for row in file["rows"]] == [60.0 * n for n in range(1, 9)]
    assert (file["ceilings"], file["machine"]["date"]) == ({"copy_gbps": 4000.0}, "2026-11-20")
    assert go(ops[:1], tmp_path)[0] == 0


@pytest.mark.parametrize("other", [{"commit": "def"}, {"driver": "590"}, {"versions": {"torch": "2.13"}}])
def test_rows_of_another_commit_or_machine_are_not_gone_on_with(ops, machine, tmp_path, other):
    go(ops[:1], tmp_path)
    machine.facts = machine.facts | other
    machine.fail = NAMES[1]
    with pytest.raises(KeyboardInterrupt):
        go(ops[:1], tmp_path)
    assert len(stored(tmp_path)["rows"]) == 1
    assert stored(tmp_path)["machine"] == machine.facts


def test_a_fresh_run_times_all_again(ops, machine, tmp_path):
    go(ops[:1], tmp_path)
    assert go(ops[:1], tmp_path, fresh=True)[0] == 8
    assert [row["median_ms"] for row in stored(tmp_path)["rows"]] == [60.0 * n for n in range(9, 17)]


def test_other_operations_files_are_left_alone(ops, machine, tmp_path):
    go(ops, tmp_path)
    before = (tmp_path / "operations" / "other" / "h200.json").read_bytes()
    machine.facts = machine.facts | {"commit": "def"}
    go(ops[:1], tmp_path)
    assert (tmp_path / "operations" / "other" / "h200.json").read_bytes() == before
    assert (stored(tmp_path)["machine"]["commit"], stored(tmp_path, "other")["machine"]["commit"]) == ("def", "abc")


def test_none_is_begun_that_would_end_after_the_time(ops, machine, tmp_path):
    timed, run = go(ops, tmp_path, minutes=3.5)
    assert (timed, machine.now) == (3, 180)
    assert [str(at) for at in run.left][:2] == [
        "layer_norm backward 8×16 float32 eps=0.1",
        "layer_norm forward 8×32 float32",
    ]
    assert len(run.left) == 9
    assert len(stored(tmp_path)["rows"]) == 3
    timed, run = go(ops, tmp_path, minutes=3)
    assert (timed, len(run.left)) == (3, 6)
    assert go(ops, tmp_path)[0] == 6


def test_without_a_folder_nothing_is_stored(ops, machine, tmp_path):
    _, run = go(ops, None)
    assert [len(found.rows) for found in run.results.values()] == [8, 4]


def test_points_drawn_from_a_seed_are_the_same_again_and_not_those_of_another():
    op = kernels.operation("layer_norm")
    found = drawn(op, 24, 1)
    assert found == drawn(op, 24, 1) != drawn(op, 24, 2)
    assert {at.case.dtype for at in found} == set(DTYPES)
    assert {at.direction for at in found} == {"forward", "backward"}
    assert all([variant.level for variant in at.variants] == [4, 5] for at in found)
    compiled = [any(peer.name == "torch.compile" for peer in at.op.peers) for at in found]
    assert compiled == 6 * [True] + 18 * [False]


def test_rows_are_drawn_for_the_layers_of_models():
    op = kernels.operation("matmul")
    found = [at.case for at in drawn(op, 40, 1)]
    assert {(case.shape[1], case.sizes["N"]) for case in found} == set(LAYERS)
    assert len({case.shape[0] for case in found}) > 20 and {case.dtype for case in found} == {"bfloat16"}


def test_an_operation_without_shapes_to_draw_says_so():
    with pytest.raises(ValueError, match="decode: no shapes"):
        drawn(kernels.operation("decode"), 1, 0)


def test_drawn_points_of_another_seed_are_not_gone_on_with(ops, machine, tmp_path):
    for seed, left in ((7, 4), (7, 0), (8, 4)):
        run = Bench(points(ops[:1], "cuda")[:4], "cuda", 60, tmp_path, seed=seed)
        assert len(list(run)) == left
        found = json.loads((tmp_path / "drawn" / "layer_norm" / "h200.json").read_text())
        assert (found["machine"]["seed"], len(found["rows"])) == (seed, 4)
    assert not (tmp_path / "operations").exists()
