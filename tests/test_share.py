"""Shares of the tests of a small repository: together they are everything, and what a change concerns is in each."""

import json
import math
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import budget, share

HERE = Path(__file__).parent
NOTEBOOK = {
    "cells": [
        {
            "cell_type": "code",
            "execution_count": 1,
            "id": "a",
            "metadata": {},
            "outputs": [],
            "source": "import kernels.lens",
        }
    ],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}
FILES = {
    "kernels/__init__.py": "from kernels.operation import operation, operations\nfrom kernels.ops.softmax import softmax",
    "kernels/operation.py": "def operations(): return ('matmul', 'softmax')\ndef operation(name): return name",
    "kernels/check.py": "from kernels.operation import operation",
    "kernels/lens.py": "",
    "kernels/ops/softmax/__init__.py": "from kernels.ops.softmax import cuda\nsoftmax = 1",
    "kernels/ops/softmax/cuda.py": "SOURCE = 'softmax.cu'",
    "kernels/ops/softmax/softmax.cu": "",
    "kernels/ops/matmul/__init__.py": "",
    "tests/test_check.py": """
import kernels, pytest
from kernels import check
@pytest.mark.parametrize("op", kernels.operations())
@pytest.mark.parametrize("number", range(20))
def test_op(op, number): pass
""",
    "tests/test_lens.py": """
import pytest
from kernels import lens
@pytest.mark.parametrize("number", range(30))
def test_lens(number): pass
@pytest.mark.always
def test_structure(): pass
""",
    **{f"book/chapter{number}.ipynb": json.dumps(NOTEBOOK) for number in range(12)},
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-p no:cacheprovider --strict-markers"\nmarkers = ["always"]',
}


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Its folder, with everything committed on main."""
    monkeypatch.delenv("CHANGED_SINCE", raising=False)
    monkeypatch.setattr(share, "ROOT", tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in ("share.py", "dependents.py", "budget.py"):
        shutil.copy(HERE / name, tmp_path / "tests" / name)
    shutil.copy(HERE.parent / "CONTRIBUTING.md", tmp_path)
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    commit(tmp_path)
    return tmp_path


def git(folder, *words):
    named = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(
        ["git", *named, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(folder):
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message=m")
    return git(folder, "rev-parse", "HEAD")


class Item:
    """What the plugin asks of a test."""

    def __init__(self, repository, nodeid, always=False, **params):
        self.nodeid, self.path = nodeid, repository / nodeid.partition("::")[0]
        self.callspec, self.always = SimpleNamespace(params=params), always

    def get_closest_marker(self, name):
        return name == "always" and self.always

    def iter_markers(self):
        return ()


def items(repository):
    operations = [("softmax", number) for number in range(20)] + [("matmul", number) for number in range(20)]
    found = [Item(repository, f"tests/test_check.py::test_op[{n}-{op}]", op=op, number=n) for op, n in operations]
    found += [Item(repository, f"tests/test_lens.py::test_lens[{number}]", number=number) for number in range(30)]
    found += [Item(repository, f"book/chapter{n}.ipynb::Cell {cell}") for n in range(12) for cell in range(3)]
    return [*found, Item(repository, "tests/test_lens.py::test_structure", always=True)]


def chosen(repository, which, seconds=math.inf):
    """The names of the tests that run, and what is said."""
    kept, said = share.Choice(share.parse(which), seconds).of(items(repository))
    return {one.nodeid for one in kept}, said


def test_eight_shares_are_everything_once(repository):
    shares = [chosen(repository, f"{number}/8")[0] for number in range(1, 9)]
    always = {"tests/test_lens.py::test_structure"}
    everything = {one.nodeid for one in items(repository)}
    assert set.intersection(*shares) == always
    assert set.union(*shares) == everything == chosen(repository, "1/1")[0]
    assert sum(len(one - always) for one in shares) == len(everything - always)
    assert all(3 <= len(one) <= len(everything) / 4 for one in shares), list(map(len, shares))
    for one in shares:  # a notebook is whole
        cells = Counter(name.partition("::")[0] for name in one if ".ipynb" in name)
        assert set(cells.values()) <= {3}


@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        ("kernels/check.py", ["test_op["]),
        ("kernels/ops/softmax/softmax.cu", ["-softmax]"]),
        ("kernels/ops/matmul/__init__.py", ["-matmul]"]),
        ("kernels/lens.py", ["test_lens[", ".ipynb"]),
        ("book/chapter3.ipynb", ["chapter3"]),
        ("tests/test_lens.py", ["test_lens["]),
        ("kernels/__init__.py", []),
    ],
)
def test_what_a_change_concerns_is_in_every_share(repository, changed, parts):
    with (repository / changed).open("a") as file:
        file.write("\n")
    concerned = {one.nodeid for one in items(repository) if any(part in one.nodeid for part in parts)}
    shares = [chosen(repository, f"{number}/8")[0] for number in range(1, 9)]
    assert set.intersection(*shares) == concerned | {"tests/test_lens.py::test_structure"}


def test_where_the_time_is_short_those_nearest_to_the_change_run(repository, monkeypatch):
    (repository / "kernels/lens.py").write_text("from kernels import operation")
    monkeypatch.setenv("CHANGED_SINCE", commit(repository))
    (repository / "kernels/operation.py").write_text(FILES["kernels/operation.py"] + "\n")
    near = {one.nodeid for one in items(repository) if "test_op[" in one.nodeid}
    every = {one.nodeid for one in items(repository)}
    assert chosen(repository, "1/8")[0] == every
    seconds = budget.table()["tests/test_check.py"] * len(near)
    tests, said = chosen(repository, "1/8", seconds)
    assert near <= tests < every
    assert "more do, which would take" in said
    assert chosen(repository, "1/8", seconds)[0] == tests


def test_pytest_runs_a_share_and_prints_it(repository):
    """By itself and with other processes, and where the share is empty."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.budget", "-p", "tests.share", "tests/test_check.py"]
    for options, number in ((["--share=1/1"], 40), (["--share=7/1000", "-n", "1"], 0), (["--share=7/1000"], 0)):
        run = subprocess.run([*command, *options], cwd=repository, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
        assert f"{options[0][2:].upper()} repeats it: {number} of 40 tests" in run.stdout


def test_eight_commits_in_a_row_have_eight_shares(repository):
    shares = [share.parse("auto") for _ in range(8) if commit(repository)]
    assert sorted(shares) == [(number, 8) for number in range(1, 9)]


def test_a_shallow_clone_has_a_share_of_its_commits_hash(repository, tmp_path_factory, monkeypatch):
    clone = tmp_path_factory.mktemp("clone")
    git(clone, "clone", "--quiet", "--depth=1", f"file://{repository}", ".")
    monkeypatch.setattr(share, "ROOT", clone)
    assert share.parse("auto") == (int(git(clone, "rev-parse", "HEAD")[:8], 16) % 8 + 1, 8)
    assert share.base() == git(clone, "rev-parse", "HEAD")


@pytest.mark.parametrize("text", ["", "all", "0/8", "9/8", "3", "3/8/2"])
def test_what_is_no_share_is_refused(text):
    with pytest.raises(pytest.UsageError, match="expected auto or a share such as 3/8"):
        share.parse(text or "none")


def test_since_when_files_have_changed(repository, tmp_path_factory, monkeypatch):
    first = git(repository, "rev-parse", "HEAD")
    assert share.base() == first  # which has no parent
    second = commit(repository)
    assert share.base() == first  # on main
    git(repository, "switch", "--quiet", "--create=branch")
    for _ in range(3):
        last = commit(repository)
    assert share.base() == second  # where the branch left main
    clone = tmp_path_factory.mktemp("clone")
    git(clone, "clone", "--quiet", str(repository), ".")
    git(clone, "switch", "--quiet", "main")
    ahead = [commit(clone) for _ in range(2)]
    monkeypatch.setattr(share, "ROOT", clone)
    assert share.base() == second  # what is not pushed
    monkeypatch.setenv("CHANGED_SINCE", ahead[0])
    assert share.base() == ahead[0]
    monkeypatch.setenv("CHANGED_SINCE", "nonsense")
    with pytest.raises(pytest.UsageError, match="CHANGED_SINCE: git knows no commit 'nonsense'"):
        share.base()
    assert last


def test_new_and_changed_files_have_changed_and_ignored_ones_have_not(repository):
    (repository / ".gitignore").write_text("built\n")
    since = commit(repository)
    for name in ("built", "new.py", "kernels/lens.py"):
        (repository / name).write_text("1")
    (repository / "kernels/check.py").unlink()
    changed, files = share.changed_files(since)
    assert changed == {"new.py", "kernels/lens.py", "kernels/check.py"}
    assert changed < files


def test_a_copy_without_its_history_has_a_share(tmp_path, monkeypatch):
    monkeypatch.setattr(share, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.delenv("CHANGED_SINCE", raising=False)
    assert share.parse("auto") == (1, 8)
    choice = share.Choice(share.parse("3/8"), 1.0)
    assert choice.described == "no change: there is no history"
