"""The Python in the book's `.md` pages runs, block after block, as a reader would paste it."""

import re
from pathlib import Path

import pytest

from kernels.machine import compiler

PAGES = [
    path
    for path in Path(__file__).parents[1].glob("book/*.md")
    if "```python" in path.read_text() and path.stem != "coming_from"  # whose snippets tests/test_coming_from.py runs
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # a page may write files
    names: dict = {}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        exec(compile(block, page.name, "exec"), names)
    said = capsys.readouterr().out
    assert "__syncthreads" in said
    assert "TimeLimit" in said


def test_there_are_such_pages():
    assert PAGES
