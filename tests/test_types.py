"""The modules that mypy is told to pass over are those with errors, and no others: the list can only shrink."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SETTINGS = (ROOT / "pyproject.toml").read_text()
PASSED_OVER = re.compile(r"^ignore_errors = true$", re.MULTILINE)


def passed_over() -> set[str]:
    overrides = tomllib.loads(SETTINGS)["tool"]["mypy"]["overrides"]
    return {module for one in overrides if one.get("ignore_errors") for module in one["module"]}


def with_errors(output: str) -> set[str]:
    """The modules in which mypy's output has errors."""
    files = {Path(file) for file in re.findall(r"^(\S+\.py):\d+: error:", output, re.MULTILINE)}
    return {".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in files}


@pytest.mark.quick
def test_a_module_without_errors_is_not_passed_over(tmp_path):
    everything = tmp_path / "pyproject.toml"
    everything.write_text(PASSED_OVER.sub("ignore_errors = false", SETTINGS))
    command = [sys.executable, "-m", "mypy", "--config-file", everything]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 1, run.stdout + run.stderr
    free = passed_over() - with_errors(run.stdout)
    assert not free, f"free of errors, so strike them from the list in pyproject.toml: {', '.join(sorted(free))}"
