"""The page for those who come from another project: every snippet runs on a CPU, every command is there."""

import re
from pathlib import Path

import pytest
import torch
import typer
import yaml

from kernels.__main__ import app

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "book" / "coming_from.md").read_text()
SNIPPETS = re.findall(r"^```python\n(.*?)^```\n", PAGE, re.DOTALL | re.MULTILINE)
THERE = [re.findall(r"There: `(\w+)", PAGE.split(snippet)[0])[-1] for snippet in SNIPPETS]
COMMANDS = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=THERE)
def test_a_snippet_runs(snippet):
    torch.manual_seed(0)
    exec(compile(snippet, "coming_from.md", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_there(command):
    words = command.split()
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif words[0] == "docker":
        path, service = words[words.index("-f") + 1], words[-1]
        assert service in yaml.safe_load((ROOT / path).read_text())["services"]
    else:
        assert words[:3] == ["python", "-m", "kernels"]
        known = typer.main.get_command(app).commands[words[3]].params
        options = {option for parameter in known for option in parameter.opts}
        assert options >= {word for word in words[4:] if word.startswith("--")}


def test_nothing_of_the_page_is_missed():
    assert len(SNIPPETS) == PAGE.count("```python") and len(COMMANDS) == PAGE.count("\n$ ")
    assert "book/coming_from" in (ROOT / "_toc.yml").read_text()
