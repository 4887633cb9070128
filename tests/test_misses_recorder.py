"""What is profiled where goals are missed, by a stand-in for Nsight Compute."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from missed_rows import rows

import kernels
from book.recorders import misses as recorder
from book.recorders.limits import finished
from book.recorders.misses_calls import case_of, make_all
from kernels.measure import Results
from kernels.measure.drawn import drawn
from kernels.measure.recorded import misses
from kernels.measure.results import where

GPU = "NVIDIA H200"


@pytest.fixture
def results(tmp_path):
    """A folder of results: two points of layer norm, one of them drawn, at which three rungs miss; and one of softmax."""
    files = {"operations": rows(), "drawn": rows((8, 17), {"liger": (None, 0.9)})}
    for family, of in files.items():
        Results({"gpu": GPU} | ({"seed": 7} if family == "drawn" else {}), {}, of).save(
            tmp_path / family / "layer_norm" / "h200.json"
        )
    softmax = tmp_path / "drawn" / "softmax" / "h200.json"
    Results({"gpu": GPU, "seed": 7}, {}, rows(operation="softmax")).save(softmax)
    Results({"gpu": GPU, "seed": 7}, {}, rows((9, 9))).save(softmax.with_name("t4.json"))
    return tmp_path


def test_all_that_is_missed_on_this_gpu_is_wanted_with_the_fastest_peers(results):
    found = [(at["row"]["operation"], at["seed"], list(at["contestants"])) for at in recorder.wanted(GPU, results)]
    assert found == [
        ("layer_norm", None, ["triton/passes", "liger"]),
        ("layer_norm", 7, ["triton/passes", "liger", "cuda/reread"]),
        ("softmax", 7, ["triton/passes", "liger"]),
    ]


def test_a_bench_case_and_a_drawn_one_are_found_again_with_their_values():
    cross_entropy, histogram = map(kernels.operation, ("cross_entropy", "histogram"))
    for case in cross_entropy.cases["bench"]:
        row = json.loads(json.dumps(where("cross_entropy", case, "forward")))
        assert case_of(cross_entropy, row) == case
        assert case_of(cross_entropy, row | {"dtype": "float32"}) == replace(case, dtype="float32", values="realistic")
    for at in drawn(histogram, 12, 7):
        row = json.loads(json.dumps(where("histogram", at.case, at.direction)))
        assert case_of(histogram, row, 7) == at.case
    row = where("attention", cross_entropy.cases["bench"][0], "forward") | {"params": {"window": [128, 0]}}
    assert case_of(kernels.operation("attention"), row).params == {"window": (128, 0)}


def test_the_calls_are_made_one_after_the_other_and_one_that_fails_costs_no_other(tmp_path):
    calls, told = [], []
    row, backward = (rows(direction=direction)[0] for direction in ("forward", "backward"))
    points = [
        {"row": row, "seed": None, "contestants": ["native/eager", "nobody", "liger", "torch"]},
        {"row": backward | {"dtype": "none"}, "seed": None, "contestants": ["native/eager"]},
        {"row": backward, "seed": None, "contestants": ["torch"]},
    ]
    path = tmp_path / "made.json"

    def profiled(call):
        told.append(json.loads(path.read_text())[-1])
        calls.append(call())

    make_all(points, path, time.time() + 60, profiled, warm=lambda call: call(), device="cpu")
    made = json.loads(path.read_text())
    assert [(one["point"], one["contestant"]) for one in made][:2] == [(0, "native/eager"), (0, "nobody")]
    assert [one["marked"] for one in made] == [True, False, False, True, False, True]
    assert made[0]["failure"] is None and made[1]["failure"] == "there is no such contestant"
    assert made[2]["failure"] and made[4]["failure"].startswith("ValueError: dtype")
    assert {one["failure"] for one in told} == {"its process ended"}
    assert calls[0].shape == (8, 16) and len(calls[2]) == 3  # y, and the gradients of x, weight and bias
    make_all(points, path, time.time() + 0.5, profiled, device="cpu")
    assert json.loads(path.read_text()) == made


NCU = """#!{python}
import csv, json, sys
log, (points, made) = sys.argv[sys.argv.index("--log-file") + 1], sys.argv[-3:-1]
open({calls!r}, "a").write(json.dumps(sys.argv) + "\\n")
found, kernels = [], []
for number, at in enumerate(json.load(open(points))):
    for name in at["contestants"]:
        ends = name in {ends!r}
        failure = "its process ended" if ends else "not installed" if name in {absent!r} else None
        found.append({{"point": number, "contestant": name, "marked": not failure or ends, "failure": failure}})
        kernels += ["next_call", "reread"] if found[-1]["marked"] else []
        if ends:
            break
    if found and found[-1]["failure"] == "its process ended":
        break
json.dump(found, open(made, "w"))
head = ["ID", "Kernel Name", "Block Size", "Grid Size", "gpu__time_duration.sum", {tensor!r}, {stall!r}]
with open(log, "w") as file:
    file.write("==PROF== Connected\\n")
    if {table!r}:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(
            [head, [""] * 7, *([i, name, "(32, 1, 1)", "(8, 1, 1)", "2,000", "55.5", "8.1"] for i, name in enumerate(kernels))]
        )
sys.exit({status!r})
"""
TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
STALL = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"


@pytest.fixture
def ncu(monkeypatch, tmp_path):
    """What stands in for Nsight Compute, and the arguments of its runs."""
    calls = tmp_path / "calls"
    calls.touch()

    def install(ends=(), absent=(), table=True, status=0):
        words = {"python": sys.executable, "calls": str(calls), "tensor": TENSOR, "stall": STALL, "table": table}
        script = tmp_path / "bin" / "ncu"
        script.parent.mkdir(exist_ok=True)
        script.write_text(NCU.format(**words, ends=ends, absent=absent, status=status))
        script.chmod(0o755)
        return lambda: [json.loads(line) for line in calls.read_text().splitlines()]

    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.setitem(recorder.ENVIRONMENT, "PATH", path)
    monkeypatch.setattr(recorder, "machine", lambda: {"gpu": GPU})
    monkeypatch.setattr(recorder, "listed", lambda: [TENSOR.split(".")[0], "dram__throughput"])
    monkeypatch.setattr(recorder, "compile_all", lambda points, seconds: None)
    return install


def stored(folder):
    return json.loads((folder / "h200.json").read_text())


def test_what_ends_its_process_or_is_not_there_is_left_out_and_named(ncu, results, tmp_path):
    runs = ncu(ends=["cuda/reread"], absent=["liger"])
    assert recorder.record(tmp_path / "misses", [], 5, results) == 0
    found = stored(tmp_path / "misses")
    assert [(one["operation"], one["shape"], one["contestant"]) for one in found["profiles"]] == [
        ("layer_norm", [8, 16], "triton/passes"),
        ("layer_norm", [8, 17], "triton/passes"),
        ("softmax", [8, 16], "triton/passes"),
    ]
    stalls = {"long_scoreboard": 8.1}
    kernel = {"name": "reread", "us": 2, "tensor_percent": 55.5, "stalls": stalls}
    assert found["profiles"][0] | {"kernels": []} == misses.profile_of(rows()[1], [])
    assert all(one["kernels"] == [kernel] for one in found["profiles"])
    assert found["left_out"] == [
        "layer_norm forward 8×16 float32 liger: not installed",
        "layer_norm forward 8×17 float32 liger: not installed",
        "layer_norm forward 8×17 float32 cuda/reread: its process ended",
        "softmax forward 8×16 float32 liger: not installed",
    ]
    first, second = runs()
    metrics = first[first.index("--metrics") + 1].split(",")
    assert set(metrics) == {TENSOR, "dram__throughput.avg.pct_of_peak_sustained_elapsed"}


def test_a_run_goes_on_where_the_last_one_ended_and_profiles_what_is_named_again(ncu, results, tmp_path):
    folder, runs = tmp_path / "misses", ncu(absent=["liger"])
    assert recorder.record(folder, [], 0, results) == 7
    assert not folder.exists() and not runs()
    assert recorder.record(folder, ["softmax"], 5, results) == 0
    assert [one["operation"] for one in stored(folder)["profiles"]] == ["softmax"]
    assert recorder.record(folder, ["layer_norm"], 5, results) == 0
    assert [one["operation"] for one in stored(folder)["profiles"]] == 3 * ["layer_norm"] + ["softmax"]
    assert len(stored(folder)["left_out"]) == 3
    runs = ncu()
    assert recorder.record(folder, [], 5, results) == 0
    assert (len(stored(folder)["profiles"]), stored(folder)["left_out"]) == (7, [])
    before = len(runs())
    assert recorder.record(folder, [], 5, results) == 0 and len(runs()) == before
    again = results / "drawn" / "softmax" / "h200.json"
    Results({"gpu": GPU, "seed": 7}, {}, rows(operation="softmax", times={"liger": (None, 0.8)})).save(again)
    ncu(absent=["liger"])
    assert recorder.record(folder, [], 5, results) == 0
    assert [one["contestant"] for one in stored(folder)["profiles"]][5:] == ["triton/passes", "cuda/reread"]


def test_counters_that_cannot_be_read_end_it_at_once(ncu, results, tmp_path):
    runs = ncu(table=False, status=1)
    with pytest.raises(SystemExit, match="measured nothing(.|\\n)*8×16 float32 liger: .*cannot read the counters"):
        recorder.record(tmp_path / "misses", [], 5, results)
    assert len(runs()) == 1


def test_every_point_is_compiled_by_one_process(monkeypatch, tmp_path):
    def program(points, folder, seconds):
        return ["-c", f"import sys; open({str(tmp_path / str(points[0]))!r}, 'w').write(f'{points} {{sys.argv[1]}}')"]

    monkeypatch.setattr(recorder, "program", program)
    monkeypatch.setattr(recorder, "JOBS", 3)
    recorder.compile_all([1, 2, 3, 4, 5], 20)
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == [
        "[1, 2] compile",
        "[3, 4] compile",
        "[5] compile",
    ]


def test_a_process_that_takes_too_long_is_ended_with_what_it_started(tmp_path):
    child = "import subprocess as s, sys; s.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    run = subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
    began = time.monotonic()
    assert finished(run, 0.5) == -9
    assert time.monotonic() - began < 20
    with pytest.raises(ProcessLookupError):
        for _ in range(100):  # until the last of them is collected
            os.killpg(run.pid, 0)
            time.sleep(0.05)
