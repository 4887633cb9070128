"""Speed is judged on a GPU that our solution was timed on; elsewhere the report says that it is not."""

import json

import pytest
import torch

from book.recorders import lab_times
from kernels import grading
from kernels.grading import submissions
from kernels.grading.judging import judge, speed
from kernels.grading.judging.report import Verdict
from kernels.grading.labs import exercise, labs
from kernels.grading.notebooks import read_submissions
from kernels.machine import Machine
from kernels.measure.race import Race
from kernels.measure.timing import Spread

COPY = read_submissions(lab_times.SOLUTIONS / "coalescing.ipynb")["permuted_copy"]
TIMED = [one.name for exercises in labs().values() for one in exercises if one.bench]


def raced(yours, torchs=1.0):
    return Race("cpu", {"yours": Spread(yours, yours, yours), "torch": Spread(torchs, torchs, torchs)})


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """A GPU on which our solution takes twice PyTorch's time, and submissions as long as the test says, race by race."""
    monkeypatch.setattr(speed.machine, "here", lambda: Machine("cuda", "NVIDIA Test", (9, 0), None, False))
    monkeypatch.setattr(speed, "FOLDER", tmp_path)
    rows = [{"exercise": "permuted_copy", "sizes": {}, "solution_ms": 4.0, "torch_ms": 2.0}]
    (tmp_path / "test.json").write_text(json.dumps({"machine": {}, "rows": rows}))

    def times(*results):
        results = list(results)
        monkeypatch.setattr(speed, "race", lambda name, text: results.pop(0))

    return times


def judged():
    return speed.verdict(exercise("permuted_copy"), COPY)


def test_a_third_as_fast_as_our_solution_is_fast_enough(gpu):
    gpu(raced(5.9))
    assert judged().state == "held"


def test_what_is_slow_three_times_is_slow(gpu):
    gpu(raced(9.0), raced(8.0), raced(10.0))
    said = judged()
    assert said.state == "broken"
    assert said.message.startswith(
        "0.25 of our solution's speed: it takes 10 times as long as PyTorch's own operators, for B = "
    )


def test_a_race_that_something_disturbed_is_run_again(gpu):
    gpu(raced(9.0), raced(3.0))
    assert judged().state == "held"


def test_a_submission_that_cannot_be_timed_is_broken(gpu):
    gpu("No time: yours and torch give different results")
    assert judged().message == "No time: yours and torch give different results"


def test_a_gpu_that_our_solution_was_not_timed_on_judges_nothing(gpu, tmp_path):
    (tmp_path / "test.json").unlink()
    gpu(raced(100.0))
    assert judged().state == "open"


def test_a_slow_kernel_waits_for_the_properties_before_it(gpu):
    gpu()
    said = judge.grade(exercise("permuted_copy"), COPY.replace("x[", "2 * x["))
    assert said.verdicts[-1] == Verdict(speed.NAME, "waits")


def test_every_stored_solution_is_timed_at_the_sizes_of_its_exercise():
    for path in speed.FOLDER.glob("*.json"):
        rows = json.loads(path.read_text())["rows"]
        assert {row["exercise"]: row["sizes"] for row in rows} == {name: exercise(name).bench for name in TIMED}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: torch.cuda is not available")
@pytest.mark.parametrize("name", TIMED)
def test_a_kernel_that_idles_is_right_and_slow(name):
    lab = next(lab for lab, exercises in labs().items() if name in [one.name for one in exercises])
    text = read_submissions(lab_times.SOLUTIONS / f"{lab}.ipynb")[name]
    if exercise(name).language != "cuda":
        pytest.skip("Triton has no clock to wait by")
    # The block stays for as long as one thread spins, and a CPU spins for that one only.
    first = "if (threadIdx.x == 0 && threadIdx.y == 0)"
    spin = f"{first} for (long long start = clock64(); clock64() - start < 300000;) {{}}"
    head, kernel = text.split("__global__")
    said = judge.grade(exercise(name), f"{head}__global__{kernel.replace('{', '{' + spin, 1)}")
    if said.verdicts[-1].state == "open":
        pytest.skip("our solutions were not timed on this GPU")
    assert said.broken == (speed.NAME,), said


def test_a_report_says_why_there_is_no_time(monkeypatch):
    monkeypatch.setattr(submissions, "_submitted", {})
    said = "permuted_copy: not timed\nRun the cell that begins with %%cuda permuted_copy first"
    assert repr(grading.speed("permuted_copy")).startswith(said)
