"""Launches of Triton kernels in the lens: isolated, of a notebook's cell, counted in a call, shown."""

import io
import linecache

import pytest
import torch
import triton_counted as counted  # before triton: see there
from rich.console import Console
from triton.runtime.jit import JITFunction
from triton_traced import floats, trace

from kernels import lens, worker
from kernels.lens.triton.run import trace_here
from kernels.lens.triton.trace import watched
from kernels.machine import interpreting
from kernels.triton.launch import launch

needs_interpreter = pytest.mark.skipif(not interpreting(), reason="launches on a CPU, where Triton is a compiler")


def test_isolation_and_mistakes_of_a_launch():
    with pytest.raises(worker.TimeLimit, match="endless_kernel: stopped after 0.5 s"):
        lens.trace_triton(counted.endless_kernel, (1,), (torch.zeros(16),), BLOCK=16, seconds=0.5)
    with pytest.raises(TypeError, match="copy_kernel: missing a required argument: 'stride'"):
        lens.trace_triton(counted.copy_kernel, (1,), (torch.zeros(16), torch.zeros(16)), BLOCK=16)
    with pytest.raises(TypeError, match="kernel: got function, expected a function decorated"):
        lens.trace_triton(lambda x: x, (1,), ())
    with pytest.raises(ValueError, match="grid is .*: its x must be at least 1"):
        lens.trace_triton(counted.endless_kernel, (0,), (torch.zeros(16),), BLOCK=16)
    with pytest.raises(ValueError, match="TRITON_INTERPRET: is 0"):
        trace_here(JITFunction(counted.copy_kernel.fn), (1,), (), {"BLOCK": 16})


CELL = """import triton as compiler
import triton.language as tl

STEP = 2

@compiler.jit
def double(x):
    return x * STEP

@compiler.jit
def cell_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(y_ptr + i, double(x))
"""


def test_a_kernel_of_a_cell():
    """As IPython runs it: a file that is only known to linecache, and a module that no one can import."""
    linecache.cache["/no/such/cell.py"] = len(CELL), None, CELL.splitlines(True), "/no/such/cell.py"
    scope = {"__name__": "__main__"}
    exec(compile(CELL, "/no/such/cell.py", "exec"), scope)
    x, y = floats(64), torch.zeros(64)
    found = lens.trace_triton(scope["cell_kernel"], (1,), (x, y), BLOCK=64)
    assert torch.equal(y, 2 * x) and found.error is None
    assert [one.line for one in found.accesses] == [13, 14]
    assert found.source == CELL and found.filename == "cell_kernel.py"


@needs_interpreter
def test_count_sees_both_ways_to_launch():
    x, y = floats(100).bfloat16(), torch.zeros(100).bfloat16()

    def call(x, y):
        launch(counted.copy_kernel, (2,), x, y, 1, 100, BLOCK=64, num_warps=2)
        grid = lambda meta: (counted.triton.cdiv(meta["N"], meta["BLOCK"]),)  # noqa: E731
        counted.copy_kernel[grid](x, y_ptr=y, stride=1, N=100, BLOCK=32)

    found = lens.count(call, x=x, y=y)
    assert torch.equal(x, y)
    assert [one.grid for one in found.traces] == [(2, 1, 1), (4, 1, 1)]
    assert [one.constants for one in found.traces] == [{"BLOCK": 64, "num_warps": 2}, {"BLOCK": 32}]
    assert found.totals["bytes_requested"] == 2 * 400 and found.totals["launches"] == 2
    assert found == lens.count(call, x=x, y=y)
    y.zero_()
    launch(counted.copy_kernel, (2,), x, y, 1, 100, BLOCK=64)  # and is a launch again
    counted.copy_kernel[(2,)](x, y, 1, 100, BLOCK=64)
    assert torch.equal(x, y)


@needs_interpreter
def test_inside_a_worker():
    """As grading does."""
    traces = []
    x, y = floats(32), torch.zeros(32)
    with watched(lambda *of: traces.append(trace_here(*of))):
        counted.copy_kernel[(1,)](x, y, 1, 32, BLOCK=32)
    assert torch.equal(x, y) and traces[0].totals["bytes_requested"] == 256


def shown(what):
    console = Console(width=140, file=io.StringIO())
    console.print(what)
    return console.file.getvalue()


def test_it_shows_itself_and_is_saved():
    found = trace(counted.copy_kernel, (4,), (floats(8000), torch.zeros(1000), 8, 1000), BLOCK=256)
    text, html = shown(found), found._repr_html_()
    assert "copy_kernel: grid (4, 1, 1), BLOCK=256" in text
    (line,) = [line for line in text.splitlines() if "load x_ptr" in line]
    assert "▲" in line and "4 of 256 lanes, 24 masked" in line and "250 sectors" in line and "31.25" in line
    assert "lanes: 48 of 2,048 masked" in text and "lanes: 48 of 2,048 masked" in html
    assert "barriers" not in text and "24 masked" in html
    assert lens.Trace.from_json(found.as_json()) == found
    assert lens.Trace.from_json(found.as_json()).totals == found.totals
