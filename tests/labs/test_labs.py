"""Every lab's check: it rejects each mistake, for the property that names its cause, and no solution that is right."""

import collections
import importlib
import pkgutil
from pathlib import Path

import mutants
import nbformat
import pytest
import torch

from kernels.grading.judging import judge
from kernels.grading.labs import exercise, labs
from kernels.grading.notebooks import read_submissions

ROOT = Path(__file__).parents[2]
FILES = {
    one.name: importlib.import_module(f"{mutants.__name__}.{one.name}")
    for one in pkgutil.iter_modules(mutants.__path__)
}
MUTANTS = [(lab, mutant) for lab, file in FILES.items() for mutant in file.MUTANTS]
ACCEPTED = [
    (name, title, text)
    for file in FILES.values()
    for name, texts in file.ACCEPTED.items()
    for title, text in texts.items()
]


def parametrized(names, rows, title, kind):
    """A test for each row. Of each kind the first is run by `make test`, the others by `make exhaustive`."""
    kinds = [kind(row) for row in rows]
    marks = [[pytest.mark.slow] if kinds[i] in kinds[:i] else [] for i in range(len(rows))]
    return pytest.mark.parametrize(
        names, [pytest.param(*row, id=title(row), marks=mark) for row, mark in zip(rows, marks, strict=True)]
    )


def solution(lab: str, name: str) -> str:
    return read_submissions(ROOT / "labs" / "solutions" / f"{lab}.ipynb")[name]


def skeleton(lab: str, name: str) -> str:
    return read_submissions(ROOT / "labs" / f"{lab}.ipynb")[name]


EXERCISES = [(lab, one.name) for lab, exercises in labs().items() for one in exercises]
each_exercise = pytest.mark.parametrize(("lab", "name"), EXERCISES, ids=[name for _, name in EXERCISES])


@each_exercise
def test_the_solution_passes(lab, name):
    report = judge.grade(exercise(name), solution(lab, name))
    assert report.passed, str(report)


@each_exercise
def test_some_sizes_are_drawn_anew(lab, name):
    assert exercise(name).drawn


@each_exercise
def test_the_skeleton_does_not_pass_and_says_what_is_missing(lab, name):
    report = judge.grade(exercise(name), skeleton(lab, name))
    assert not report.passed
    assert report.broken, str(report)


@parametrized(
    ("lab", "mutant"),
    MUTANTS,
    title=lambda row: f"{row[1].exercise}: {row[1].mistake}",
    kind=lambda row: (row[1].exercise, row[1].broken),
)
def test_a_mutant_is_rejected_for_its_cause(lab, mutant):
    text = solution(lab, mutant.exercise)
    assert text.count(mutant.search) == 1, mutant.search
    report = judge.grade(exercise(mutant.exercise), text.replace(mutant.search, mutant.replace))
    assert not report.refused, str(report)
    assert report.broken, "it passes"
    expected = {mutant.broken, *(mutant.on_a_gpu if torch.cuda.is_available() else ())}
    assert report.broken[0] in expected, str(report)


@parametrized(("name", "title", "text"), ACCEPTED, title=lambda row: f"{row[0]}: {row[1]}", kind=lambda row: row[0])
def test_another_solution_is_accepted(name, title, text):
    report = judge.grade(exercise(name), text)
    assert report.passed, str(report)


@pytest.mark.always
@pytest.mark.parametrize("lab", labs())
def test_there_are_enough_of_them(lab):
    """Of a lab twelve mistakes and three other solutions; of each of its drills, which share their properties, two and one."""
    drills = [one.name for one in labs()[lab] if one.at_once]
    mistakes = collections.Counter(mutant.exercise for mutant in FILES[lab].MUTANTS)
    accepted = {name: len(texts) for name, texts in FILES[lab].ACCEPTED.items()}
    if drills:
        assert [name for name in drills if mistakes[name] < 2 or not accepted.get(name)] == []
    else:
        assert mistakes.total() >= 12
        assert sum(accepted.values()) >= 3
    for one in labs()[lab]:
        of = drills if drills else [one.name]
        broken = {mutant.broken for mutant in FILES[lab].MUTANTS if mutant.exercise in of}
        unused = [prop.name for prop in one.properties if prop.name not in broken]
        assert not unused, f"no mutant is rejected by {unused}"


@pytest.mark.always
def test_every_lab_has_its_notebooks():
    for folder in ("labs", "labs/solutions"):
        assert {path.stem for path in (ROOT / folder).glob("*.ipynb")} == set(labs())


@pytest.mark.always
@pytest.mark.parametrize("lab", labs())
def test_the_learners_notebook_is_made_from_the_solved_one(lab):
    from generate import learners

    made = learners(nbformat.read(ROOT / "labs" / "solutions" / f"{lab}.ipynb", as_version=4))
    stored = nbformat.read(ROOT / "labs" / f"{lab}.ipynb", as_version=4)
    for cell in stored.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    assert made == stored, "make labs"
