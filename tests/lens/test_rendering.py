"""The annotated source: in a notebook, in a terminal, and from the command line."""

import functools
import io
import os
import re
import subprocess
import sys

import pytest
import torch
from counted import FILE, MODULE, floats, trace
from rich.console import Console
from typer.testing import CliRunner

from kernels import lens
from kernels.__main__ import app
from kernels.lens import command
from kernels.lens.rendering import mark_of


@pytest.fixture(scope="module")
def transposed():
    return trace("transpose<32>", (1,), (32, 32), (floats(1024), torch.zeros(1024)))


def shown(what):
    console = Console(width=140, file=io.StringIO())
    console.print(what)
    return console.file.getvalue()


def test_in_a_terminal(transposed):
    text = shown(transposed)
    assert "transpose<32>: grid (1, 1, 1), block (32, 32, 1)" in text
    (line,) = [line for line in text.splitlines() if "load tile" in line]
    assert "tile[threadIdx.x][threadIdx.y]" in line and "▲" in line and "32 wavefronts" in line
    assert line.rstrip().endswith("1")  # the fewest
    assert "shared memory: 1,056 wavefronts, at best 64" in text


def test_in_a_notebook(transposed):
    html = transposed._repr_html_()
    assert transposed._repr_html_() == html
    rows = re.findall(r"<tr.*?</tr>", html)
    (row,) = [row for row in rows if "load tile" in row]
    assert "▲" in row and 'aria-label="more than twice the fewest"' in row and "32 wavefronts" in row
    (row,) = [row for row in rows if "store tile" in row]
    assert "●" in row and 'aria-label="as few as possible"' in row
    assert html.count("<tr") == html.count("</tr>") and "template &lt;class T&gt;" in html
    # Colours that suit a light and a dark page: text has the page's own.
    assert "background:none" in html and not re.search(r"background(-color)?:\s*(white|#fff)", html)


def test_marks_are_by_waste():
    shapes = {}
    for stride in (1, 2, 32):
        found = trace("copy", (1,), (32,), (floats(4096), torch.zeros(32), stride, 0))
        shapes[stride] = mark_of(next(one for one in found.accesses if one.kind == "load")).shape
    assert shapes == {1: "●", 2: "△", 32: "▲"}


def test_several_launches():
    x = torch.zeros(32)
    copy = MODULE.get_function("copy")
    found = lens.count(lambda: [copy((1,), (32,), (x, x.clone(), 1, 0)) for _ in range(2)])
    assert shown(found).count("copy: grid") == found._repr_html_().count("copy: grid") == 2


def test_the_command_line(tmp_path):
    saved = tmp_path / "trace.json"
    arguments = ["--arg", "float32:4096", "--arg", "float32:4x16=0", "--arg", "2", "--arg", "1", "--json", str(saved)]
    words = [sys.executable, "-m", "kernels", "lens", f"{FILE}::copy", "--grid", "2", "--block", "32", *arguments]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "COLUMNS": "140"})
    assert done.returncode == 0, done.stderr
    assert "load x" in done.stdout and "8 sectors" in done.stdout
    assert lens.Trace.from_json(saved.read_text()).totals["global_load_sectors"] == 16


def test_the_command_line_names_the_line_of_a_stack_overflow_and_of_an_endless_loop(tmp_path, monkeypatch):
    path = tmp_path / "k.cu"
    path.write_text(
        """__device__ int deep(int n) { int a[64]; a[n % 64] = n; return deep(n + 1) + a[n % 7]; }
__global__ void deeper(float* x) { x[0] = deep(1); }
__global__ void endless(float* x)
{
    while (x[0] >= 0) x[0] += 1;
}
"""
    )
    monkeypatch.setattr(command, "trace", functools.partial(command.trace, seconds=5))
    for kernel, said in (("deeper", "a stack overflow on line 1 of k.cu"), ("endless", "It was on line 5 of k.cu")):
        words = ["lens", f"{path}::{kernel}", "--grid", "1", "--block", "1", "--arg", "float32:32=0"]
        done = CliRunner(env={"COLUMNS": "140"}).invoke(app, words)
        assert done.exit_code == 1, done.exception
        assert said in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.cu::copy", "--grid", "1", "--block", "32"], "expected FILE.cu::KERNEL"),
        ([f"{FILE}::copy", "--grid", "one", "--block", "32"], "--grid: expected one to three sizes"),
        ([f"{FILE}::copy", "--grid", "1", "--block", "32", "--arg", "floaty:3"], "'floaty' is no dtype"),
        ([f"{FILE}::copy", "--grid", "1", "--block", "32"], "takes 4 arguments, got 0"),
        ([f"{FILE}::one_sided_barrier", "--grid", "1", "--block", "32", "--arg", "float32:32"], "not every thread"),
    ],
)
def test_what_the_command_line_refuses(arguments, message):
    done = CliRunner(env={"COLUMNS": "140"}).invoke(app, ["lens", *arguments])
    assert done.exit_code in (1, 2), done.exception
    assert message in " ".join(done.output.replace("│", " ").split())
