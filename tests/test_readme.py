"""The README's first command prints what stands there."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
SOURCE = re.search(r"```cpp\n(.*?)```", README, re.DOTALL)[1]
COMMAND, OUTPUT = re.search(r"```console\n\$ (.*?[^\\])\n(.*?)```", README, re.DOTALL).groups()


def test_the_kernel_is_that_of_the_file():
    assert (ROOT / "labs" / "row_sums.cu").read_text() == SOURCE
    assert len(SOURCE.splitlines()) == 8


def test_the_lens_prints_what_the_readme_shows(monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    python, *words = COMMAND.replace("\\\n", " ").split()
    assert python == ".venv/bin/python"
    run = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert [line.rstrip() for line in run.stdout.splitlines()] == OUTPUT.splitlines(), run.stderr
    assert "asks for 128 bytes and moves 1,024" in OUTPUT
