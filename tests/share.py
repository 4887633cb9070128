"""A pytest plugin: of the tests, those that a change concerns run in full, and of the others a share.

    python -m pytest -p tests.share --share=auto tests     an eighth, which differs from commit to commit
    python -m pytest -p tests.share --share=3/8 tests      the same share again
    CHANGED_SINCE=v1.2 make test                           what has changed since then runs in full

A notebook is one test here. Which share a test belongs to is a hash of its name, so that it stays when others come and go. A
test marked `always` is in every share.

A change concerns the tests that use a changed file (`dependents`). A parameter that is or names an operation, a lab or a file
says which one a test is of: other operations or labs do not count then. Where the tests of a change would take longer than
--touched-seconds, by what CONTRIBUTING's table allows each, those nearest to the change run, and of the others their share.
"""

import hashlib
import os
import re
import subprocess
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import budget
from tests.dependents import EVERYWHERE, Dependents, member

ROOT = Path(__file__).parents[1]
SHARES = 8


class Share(NamedTuple):
    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def __contains__(self, name: object) -> bool:
        return int.from_bytes(hashlib.sha256(str(name).encode()).digest()[:8]) % self.of == self.number - 1


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("share")
    group.addoption(
        "--share", metavar="K/N", help="run share K of N, such as 3/8, and what has changed; auto: by the commit"
    )
    group.addoption("--touched-seconds", type=float, default=float("inf"), help="what the tests of a change may take")


def pytest_configure(config: pytest.Config) -> None:
    if text := config.getoption("share"):
        config.stash[_CHOICE] = Choice(parse(text), config.getoption("touched_seconds"))


def pytest_report_header(config: pytest.Config) -> str | None:
    choice = config.stash.get(_CHOICE, None)
    return choice and f"SHARE={choice.share}, and in full what concerns {choice.described}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if choice := config.stash.get(_CHOICE, None):
        kept, said = choice.of(items)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]
        getattr(config, "workeroutput", {})["share"] = config.stash[_SAID] = said


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error: object) -> None:
    node.config.stash[_SAID] = getattr(node, "workeroutput", {}).get("share", "")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.stash.get(_SAID, ""):
        session.exitstatus = pytest.ExitCode.OK  # a share may be empty


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    if choice := config.stash.get(_CHOICE, None):
        terminalreporter.write_line(
            f"SHARE={choice.share} repeats it: {config.stash.get(_SAID, 'nothing was collected')}"
        )


def parse(text: str) -> Share:
    """Share 3 of 8 from "3/8"; from "auto" the share of the commit. UsageError: neither."""
    if text == "auto":
        # Commits are counted, so that eight in a row cover all; a shallow clone cannot count them and takes their hash.
        shallow = git("rev-parse", "--is-shallow-repository") == "true"
        number = git("rev-parse", "HEAD")[:8] if shallow else git("rev-list", "--count", "HEAD")
        return Share(int(number or "0", 16 if shallow else 10) % SHARES + 1, SHARES)
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise pytest.UsageError(f"--share: got {text!r}, expected auto or a share such as 3/{SHARES}")
    return Share(int(found[1]), int(found[2]))


def git(*words: str) -> str:
    """What git says, without the last newline; nothing where it fails or is missing."""
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip("\n")
    except FileNotFoundError:
        return ""


def base() -> str:
    """The commit since which files count as changed: CHANGED_SINCE; else on a branch where it left main; else, on main, what
    has not been pushed; else the last commit's parent, or the only commit. Empty in a copy without its history."""
    if given := os.environ.get("CHANGED_SINCE"):
        if not git("rev-parse", "--verify", "--quiet", f"{given}^{{commit}}"):
            raise pytest.UsageError(f"CHANGED_SINCE: git knows no commit {given!r}")
        return given
    head = git("rev-parse", "--verify", "--quiet", "HEAD")
    for main in ("main", "origin/main"):
        if (left := git("merge-base", "HEAD", main)) and left != head:
            return left
    return git("rev-parse", "--verify", "--quiet", "HEAD~1") or head


_CHOICE, _SAID = pytest.StashKey["Choice"](), pytest.StashKey[str]()


class Choice:
    """Which tests run: those always run, the share, and those that the change concerns, as far as `seconds` go."""

    def __init__(self, share: Share, seconds: float) -> None:
        self.share, self.seconds = share, seconds
        since = base()
        changed, files = changed_files(since)
        dependents = Dependents(ROOT, files) if changed else None
        self._members = dependents.members if dependents else {}
        self._steps = {file: dependents.steps(file) for file in changed - EVERYWHERE} if dependents else {}
        self.described = (
            f"{len(changed)} files changed since {since[:10]}" if since else "no change: there is no history"
        )

    def of(self, items: list[pytest.Item]) -> tuple[set[pytest.Item], str]:
        """The items to run, and a line that says how many and why."""
        always = {item for item in items if item.get_closest_marker("always")}
        kept = always | {item for item in items if name_of(item) in self.share}
        steps = {item: self._steps_to(item) for item in items}
        concerned = {item for item in items if steps[item] is not None}
        waiting = sorted(concerned - kept, key=lambda item: (steps[item], name_of(item)))
        seconds = {name_of(item): budget.seconds(item) for item in waiting}
        until = dict(zip(seconds, accumulate(seconds.values()), strict=True))
        kept |= {item for item in waiting if until[name_of(item)] <= self.seconds}
        said = (
            f"{len(kept)} of {len(items)} tests, {len(always)} that always run, {len(concerned & kept)} of the change"
        )
        if left := len(concerned - kept):
            said += f"; {left} more do, which would take {sum(seconds.values()) - self.seconds:.0f} s: make test-all"
        return kept, said

    def _steps_to(self, item: pytest.Item) -> int | None:
        """How many steps from file to file a test is from the nearest change that concerns it; None: no change does."""
        path = item.path.relative_to(ROOT).as_posix()
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        names = {value if isinstance(value, str) else getattr(value, "name", None) for value in values}
        own = {which for which in self._members if which[1] in names or which == member(path)}
        files = {path}.union(*(self._members[which] for which in own))
        files |= {one.relative_to(ROOT).as_posix() for one in values if isinstance(one, Path) and ROOT in one.parents}
        found = []
        for changed, steps in self._steps.items():
            which = member(changed)
            with_address = which and which not in own and which[0] in {kind for kind, _ in own}
            found += [] if with_address else [steps[file] for file in files if file in steps]
        return min(found, default=None)


def changed_files(since: str) -> tuple[set[str], set[str]]:
    """The files that differ from a commit, those that git does not track yet among them, and all files."""
    new = git("ls-files", "--others", "--exclude-standard").splitlines()
    changed = {*git("diff", "--name-only", "--no-renames", since).splitlines(), *new} if since else set()
    return changed, {*git("ls-files").splitlines(), *changed}


def name_of(item: pytest.Item) -> str:
    """The name whose hash says the share: the whole notebook's, or the test's with its parameters."""
    return item.nodeid.partition("::")[0] if item.path.suffix == ".ipynb" else item.nodeid
