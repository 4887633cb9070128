"""A pytest plugin, and a command: what tests take is held against the table in CONTRIBUTING.md.

    python -m pytest -p tests.budget tests              fails if the tests of a row take far longer than it says
    python -m tests.budget 'make test' 1764000000       exits 1 if that, begun at that second, takes far longer

Far longer is more than SLACK times as long, and a minute: machines differ, and other programs run beside. A row that is
exceeded on a quiet machine is a reason to make the tests faster, not the row longer.
"""

import re
import sys
import time
from collections import defaultdict
from collections.abc import Collection
from functools import cache
from pathlib import Path

import pytest

CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"
SLACK, MORE = 3, 60
UNITS = {"s": 1, "min": 60}
_SPENT: dict[str, float] = defaultdict(float)  # seconds by the name of the test or the notebook
_ROW: dict[str, str] = {}  # the row of each


@cache
def table(path: Path = CONTRIBUTING) -> dict[str, float]:
    """Seconds by the name of the row: a command, a mark (`-m slow`), or the beginning of a path."""
    section = path.read_text("utf-8").split("## How long things may take\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \|.*\| ([\d.]+) (s|min) \|$", section, re.MULTILINE)
    return {name: float(number) * UNITS[unit] for name, number, unit in rows}


def row(path: str, marks: Collection[str]) -> str:
    """The row of a test: that of its mark, else the one whose path fits best."""
    marked = [name for name in table() if name.startswith("-m ") and name[3:] in marks]
    return (marked or sorted((name for name in table() if path.startswith(name)), key=len))[-1]


def seconds(item: pytest.Item) -> float:
    """What a test, or the notebook that a cell is of, may take."""
    return table()[row(item.nodeid, {mark.name for mark in item.iter_markers()})]


def far_over(taken: float, allowed: float) -> bool:
    return taken > SLACK * allowed + MORE


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    name = report.nodeid.partition("::")[0] if ".ipynb::" in report.nodeid else report.nodeid
    _SPENT[name] += report.duration
    _ROW[name] = row(report.nodeid, report.keywords)


def rows() -> dict[str, tuple[int, float]]:
    """Of each row that had a test: how many they were, and the seconds they took together."""
    return {
        one: (len(mine := [spent for name, spent in _SPENT.items() if _ROW[name] == one]), sum(mine))
        for one in sorted(set(_ROW.values()))
    }


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    over = any(far_over(taken, number * table()[one]) for one, (number, taken) in rows().items())
    if over and exitstatus == pytest.ExitCode.OK and not hasattr(session.config, "workerinput"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter) -> None:
    for one, (number, taken) in rows().items():
        line = f"budget: {one:24} {number:5} took {taken:6.1f} s, {taken / number:5.2f} each; {table()[one]:g} each are allowed"
        over = far_over(taken, number * table()[one])
        terminalreporter.write_line(line + (", FAR TOO LONG" if over else ""), red=over)


if __name__ == "__main__":
    command, began = sys.argv[1], float(sys.argv[2])
    taken = time.time() - began
    print(f"{command} took {taken / 60:.1f} minutes; {table()[command] / 60:g} are allowed")
    sys.exit(far_over(taken, table()[command]))
