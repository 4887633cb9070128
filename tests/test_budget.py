"""The table of CONTRIBUTING is read, fits what there is, and holds."""

import re
from collections import defaultdict
from types import SimpleNamespace

import pytest

from tests import budget

ROOT = budget.CONTRIBUTING.parent
COMMANDS = {"make quick": 60, "make test": 720, ".ci/run": 3600}


def test_the_commands_may_take_what_the_course_promises():
    assert {name: budget.table()[name] for name in COMMANDS} == COMMANDS


def test_the_commands_hold_themselves_to_the_table():
    makefile, ci = (ROOT / "Makefile").read_text(), (ROOT / ".ci" / "run").read_text()
    for command in COMMANDS:
        assert re.search(rf"-m tests.budget '?{re.escape(command)}'? ", makefile + ci), command


def test_every_other_row_is_a_mark_or_a_path():
    marks = re.findall(r'^    "(\w+): ', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    for name in budget.table().keys() - COMMANDS.keys():
        assert name.removeprefix("-m ") in marks or (ROOT / name).exists(), name


@pytest.mark.parametrize(
    ("path", "marks", "row"),
    [
        ("tests/test_book.py::test_x", (), "tests/"),
        ("tests/test_check.py::test_x[a]", (), "tests/test_check.py"),
        ("tests/test_check.py::test_x[a]", ("slow",), "-m slow"),
        ("tests/labs/test_labs.py::test_x", ("parametrize",), "tests/labs/"),
        ("book/levels/cuda.ipynb::Cell 3", (), "book/"),
    ],
)
def test_a_test_is_of_one_row(path, marks, row):
    assert budget.row(path, marks) == row


@pytest.fixture
def ran(monkeypatch):
    """ran(name, seconds, count) says that so many tests took so long; `over` then says whether the run fails."""
    monkeypatch.setattr(budget, "_SPENT", defaultdict(float))
    monkeypatch.setattr(budget, "_ROW", {})

    def ran(name, seconds, count=1):
        for number in range(count):
            nodeid = f"{name}{number}]" if count > 1 else name
            for part in (0.25, 0.75):
                report = SimpleNamespace(nodeid=nodeid, duration=part * seconds, keywords={})
                budget.pytest_runtest_logreport(report)

    return ran


def over():
    session = SimpleNamespace(exitstatus=pytest.ExitCode.OK, config=SimpleNamespace())
    budget.pytest_sessionfinish(session, pytest.ExitCode.OK)
    return session.exitstatus != pytest.ExitCode.OK


def test_a_row_that_takes_far_too_long_fails_the_run(ran):
    allowed = budget.table()["tests/"]
    ran("tests/test_figures.py::test_x[", 2 * allowed, 1000)
    assert not over()
    ran("tests/test_figures.py::test_y[", 5 * allowed, 1000)
    assert over()


def test_one_slow_test_does_not(ran):
    ran("tests/test_figures.py::test_x", 30)
    assert not over()


def test_the_cells_of_a_notebook_are_one(ran):
    for cell in range(20):
        ran(f"book/levels/cuda.ipynb::Cell {cell}", 2)
    assert budget.rows()["book/"] == (1, 40.0)  # beside this test itself, where the run has a budget


def test_a_command_that_takes_far_too_long_is_seen():
    assert not budget.far_over(2 * 720, 720)
    assert budget.far_over(4 * 720, 720)
