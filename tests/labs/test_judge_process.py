"""The judge is a process of its own: what a notebook does to its modules does not reach it."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kernels.grading import check, submissions
from kernels.grading.judging import process
from kernels.grading.notebooks import read_submissions

ROOT = Path(__file__).parents[2]
SOLUTION = read_submissions(ROOT / "labs" / "solutions" / "coalescing.ipynb")["permuted_copy"]

PATCHED = """
import torch
from kernels.grading import check, properties
from kernels.grading.properties import counters, differences
from kernels.grading.judging import judge, report
from kernels.grading.submissions import submit
from kernels.grading.labs import coalescing
from kernels import lens, worker

torch.equal = torch.allclose = lambda *_, **__: True
torch.Tensor.__ne__ = lambda *_: torch.zeros(1)
judge.grade = judge._verdicts = lambda *_: "passed"
properties._wrong = differences.mismatch = lambda *_: None
coalescing._call = lambda *_, **__: None
for one in coalescing.EXERCISES:
    object.__setattr__(one, "properties", ())
lens.trace = lambda *_, **__: None
submit("cuda", "permuted_copy", "__global__ void permuted_copy(float* y, const float* x, int B, int S, int H, int D) {}")
print(check("permuted_copy").passed)
"""


def test_a_patch_in_the_notebook_does_not_reach_the_judge():
    ran = subprocess.run([sys.executable, "-c", PATCHED], cwd=ROOT, capture_output=True, text=True)
    assert ran.stdout == "False\n", ran.stderr


def test_it_says_what_it_does_before_it_answers():
    said = []
    try:
        process.ask("grade", "permuted_copy", SOLUTION, said.append)
    finally:
        process.stop()
    assert said[:2] == ["waiting for the judge", "compiling"]
    cases = re.fullmatch(r"case 1 of (\d+)", said[2])[1]
    assert f"fresh values, case {cases} of {cases}" in said


def test_an_interrupted_check_judges_nothing(monkeypatch):
    endless = SOLUTION.replace("int d = i % D;", "int d = i % D; while (d == d);")
    monkeypatch.setattr(submissions, "_submitted", {"permuted_copy": endless})
    process.ask("grade", "permuted_copy", SOLUTION)  # a process that has started: what is endless is soon in flight
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(submissions.Interrupted, match="nothing was judged"):
        check("permuted_copy")


def test_a_changed_text_is_judged_by_its_change_also_when_the_judge_has_died_meanwhile():
    wrong = SOLUTION.replace("y[i] = x", "y[i] = -x")
    try:
        assert [process.ask("grade", "permuted_copy", text).passed for text in (SOLUTION, wrong)] == [True, False]
        process._process.kill()
        process._process.wait()
        assert process.ask("grade", "permuted_copy", SOLUTION).passed
    finally:
        process.stop()
