"""The hook for commits' messages, and the files for those who contribute."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.commit_subject import problem

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.always


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("The lens counts atomics of half types", None),
        ("x" * 71 + "\n\nWhy: " + "y" * 500, None),
        ("Merge branch 'names' into the branch that has been there for a very long time indeed, longer than 72", None),
        ("# a comment of git's\nThe subject\n# another", None),
        ("x" * 72, "has 72 characters, expected fewer than 72"),
        ("A subject\nand no empty line", "its second line is not empty"),
        ("\n\nbelow", "its first line is empty"),
        ("", "its first line is empty"),
    ],
)
def test_a_subject_is_short(message, words, tmp_path):
    (tmp_path / "message").write_text(message)
    command = [sys.executable, ROOT / "tests" / "commit_subject.py", tmp_path / "message"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert (run.returncode == 0) == (words is None)
    assert words is None or words in run.stderr
    assert (problem(message) is None) == (words is None)


def test_the_hooks_run_what_is_there_and_pin_nothing():
    settings = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [repo["repo"] for repo in settings["repos"]] == ["local"]
    hooks = {hook["id"]: hook for repo in settings["repos"] for hook in repo["hooks"]}
    assert hooks["subject"]["stages"] == ["commit-msg"]
    assert {"pre-commit", "commit-msg"} == set(settings["default_install_hook_types"])
    for hook in hooks.values():
        assert hook["entry"].startswith(".venv/bin/python ")
        assert not re.search(r"\.py\b", hook["entry"]) or (ROOT / hook["entry"].split()[1]).exists()


def test_the_citation_has_the_packages_title_version_and_license():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]
    assert (ROOT / "README.md").read_text().startswith(f"# {citation['title']}\n")
    assert {"cff-version", "message", "authors"} <= citation.keys()


def test_the_templates_for_issues_are_whole():
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert forms
    for form in forms:
        fields = yaml.safe_load(form.read_text())
        assert {"name", "description", "body"} <= fields.keys()
        assert all(field["attributes"]["label"] for field in fields["body"])
