"""The page for those who come from another project: every snippet runs on a CPU, every command is there.

A name that is not written yet stands in NOT_WRITTEN, and below its snippets the page says so. Who writes it takes it from both.
"""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest
import torch
import typer
import yaml

from kernels.__main__ import app

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "book" / "coming_from.md").read_text()
SNIPPETS = re.findall(r"^```python\n(.*?)^```\n(\n\*Not written yet\.\*\n)?", PAGE, re.DOTALL | re.MULTILINE)
THERE = [re.findall(r"There: `(\w+)", PAGE.split(snippet)[0])[-1] for snippet, _ in SNIPPETS]
COMMANDS = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)

# A function, or an argument of one: "function(argument=)".
NOT_WRITTEN = {
    "kernels.attention",
}


def names(snippet: str) -> set[str]:
    """What a snippet takes of this package, in full, such as "kernels.shapes.Buckets.fit", and "….fit(count=)"."""
    tree, meant, found = ast.parse(snippet), {}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            meant |= {one.name: one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            meant |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}

    def full(node: ast.AST) -> str | None:
        if isinstance(node, ast.Name):
            return meant.get(node.id)
        before = full(node.value) if isinstance(node, ast.Attribute) else None
        return f"{before}.{node.attr}" if before else None

    for node in ast.walk(tree):
        if name := full(node):
            found.add(name)
        if isinstance(node, ast.Call) and (name := full(node.func)):
            found |= {f"{name}({one.arg}=)" for one in node.keywords}
    return {name for name in found if name.startswith("kernels.")}


def is_written(name: str) -> bool:
    path, _, argument = name.removesuffix("=)").partition("(")
    here = importlib.import_module("kernels")
    for part in path.split(".")[1:]:
        if inspect.ismodule(here) and not hasattr(here, part):
            try:
                importlib.import_module(f"{here.__name__}.{part}")
            except ModuleNotFoundError:
                return False
        if not hasattr(here, part):
            return False
        here = getattr(here, part)
    return not argument or argument in inspect.signature(here).parameters


@pytest.mark.parametrize("snippet", [snippet for snippet, _ in SNIPPETS], ids=THERE)
def test_a_snippet_runs(snippet):
    if missing := sorted(names(snippet) & NOT_WRITTEN):
        pytest.skip(f"{', '.join(missing)}: not written yet")
    torch.manual_seed(0)
    exec(compile(snippet, "coming_from.md", "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("name", sorted(NOT_WRITTEN))
def test_a_name_that_is_written_is_not_listed(name):
    assert not is_written(name), f"{name} is there: take it from NOT_WRITTEN, and the line from the page"
    assert any(name in names(snippet) for snippet, _ in SNIPPETS), "no snippet takes it"


@pytest.mark.parametrize(("snippet", "said"), SNIPPETS, ids=THERE)
def test_the_page_says_what_is_not_written(snippet, said):
    assert bool(said) == bool(names(snippet) & NOT_WRITTEN)


def test_names_are_found():
    snippet = (
        "from kernels import measure as m\nfrom kernels.shapes import Buckets\nm.compare(Buckets.fit([1], count=2))"
    )
    assert names(snippet) == {
        "kernels.measure",
        "kernels.measure.compare",
        "kernels.shapes.Buckets",
        "kernels.shapes.Buckets.fit",
        "kernels.shapes.Buckets.fit(count=)",
    }
    assert is_written("kernels.shapes.Buckets.fit(count=)") and not is_written("kernels.shapes.Buckets.fit(counts=)")
    assert not is_written("kernels.warp_drive") and not is_written("kernels.warp.drive")


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
    assert PAGE.count("*Not written yet.*") == sum(bool(said) for _, said in SNIPPETS)
    assert "book/coming_from" in (ROOT / "_toc.yml").read_text()
