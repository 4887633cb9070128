"""Triton kernels in the lens, against what is counted by hand."""

import io
import linecache
from pathlib import Path

import pytest
import torch
import triton_counted as counted  # before triton: see there
from rich.console import Console
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from kernels import lens, worker
from kernels.lens import triton_run, triton_trace
from kernels.lens.result import TRITON_TOTALS
from kernels.machine import interpreting
from kernels.triton_launch import launch

LINES = Path(counted.__file__).read_text().splitlines()


def line_of(comment):
    (number,) = [number for number, line in enumerate(LINES, 1) if line.endswith(f"# {comment}")]
    return number


def trace(kernel, grid, args, **options):
    """In this process, where Triton is its interpreter: tests that need no isolation are quick."""
    if interpreting():
        return triton_run.trace_here(kernel, grid, args, options)
    return lens.trace_triton(kernel, grid, args, **options)


needs_interpreter = pytest.mark.skipif(not interpreting(), reason="launches on a CPU, where Triton is a compiler")


def floats(count):
    return torch.arange(count, dtype=torch.float32)


def access(found, name, kind="load"):
    (one,) = [one for one in found.accesses if one.names == (name,) and one.kind == kind]
    return one


def numbers(one):
    return one.requests, one.lanes, one.masked, one.bytes, one.sectors, one.fewest_sectors


def test_a_masked_tail():
    x, y = floats(1000), torch.zeros(1000)
    found = trace(counted.copy_kernel, (4,), (x, y, 1, 1000), BLOCK=256)
    assert torch.equal(x, y) and found.findings == () and found.error is None
    loaded, stored = access(found, "x_ptr"), access(found, "y_ptr", "store")
    assert numbers(loaded) == numbers(stored) == (4, 1000, 24, 4000, 125, 125)
    assert (loaded.line, stored.line) == (line_of("copy loads"), line_of("copy stores"))
    assert (loaded.width, loaded.space, loaded.instructions, loaded.waste) == (4, "global", 1, 1.0)
    assert found.totals == dict(zip(TRITON_TOTALS, (125, 125, 0, 48, 1, 8000, 8000), strict=True))
    assert (found.grid, found.block, found.constants) == ((4, 1, 1), (128, 1, 1), {"BLOCK": 256})
    assert (found.barriers, found.simt_efficiency, found.shared_mem) == (None, None, None)


@pytest.mark.parametrize(
    ("stride", "offset", "sectors", "fewest"),
    [(1, 0, 16, 16), (2, 0, 32, 16), (8, 0, 128, 16), (0, 0, 1, 1), (1, 3, 17, 16)],
)
def test_strides_and_offsets(stride, offset, sectors, fewest):
    found = trace(counted.copy_kernel, (1,), (floats(2048)[offset:], torch.zeros(128), stride, 128), BLOCK=128)
    assert numbers(access(found, "x_ptr")) == (1, 128, 0, 512, sectors, fewest)


@pytest.mark.parametrize(
    ("dtype", "width"),
    [
        (torch.bool, 1),
        (torch.int8, 1),
        (torch.float16, 2),
        (torch.bfloat16, 2),
        (torch.int64, 8),
        (torch.float64, 8),
    ],
)
def test_types(dtype, width):
    x, y = (floats(192) % 3).to(dtype), torch.zeros(128, dtype=dtype)
    found = trace(counted.copy_kernel, (1,), (x[16:], y, 1, 128), BLOCK=128)
    assert torch.equal(y, x[16:144])
    assert numbers(access(found, "x_ptr")) == (1, 128, 0, 128 * width, 4 * width + (width == 1), 4 * width)
    assert numbers(access(found, "y_ptr", "store")) == (1, 128, 0, 128 * width, 4 * width, 4 * width)


def test_two_dimensions():
    x, y = floats(32 * 24).view(32, 24), torch.zeros(24, 32)
    found = trace(counted.transpose_kernel, (2, 2), (x, y, 32, 24), BLOCK=16)
    assert torch.equal(y, x.T)
    # Of the right half of the tiles, half is masked. A row of a tile is 64 or 32 bytes of x, a column 64 bytes of y.
    assert numbers(access(found, "x_ptr")) == (4, 768, 256, 3072, 2 * 16 * (2 + 1), 96)
    assert numbers(access(found, "y_ptr", "store")) == (4, 768, 256, 3072, 24 * 4, 96)


def test_atomics():
    x, bins = torch.arange(64, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    total, lock = torch.zeros(2, 1, dtype=torch.int32)
    found = trace(counted.atomics_kernel, (3,), (x, bins, total, lock), BLOCK=64)
    assert bins.tolist() == [48] * 4 and total.item() == 2 * 2016 and lock.item() == 7
    shown = {one.line: numbers(one) for one in found.accesses if one.kind == "atomic"}
    assert shown == {
        line_of("bins"): (3, 192, 0, 768, 3, 3),
        line_of("total"): (3, 2, 1, 8, 2, 2),
        line_of("lock"): (3, 3, 0, 12, 3, 3),
    }
    assert found.totals["global_atomic_sectors"] == 8


def test_block_pointers_and_descriptors():
    x, y = floats(24 * 12).view(24, 12), torch.zeros(24, 12)
    found = trace(counted.block_pointer_kernel, (2,), (x, y, 24, 12), BLOCK=16)
    assert torch.equal(x, y)
    # A tile's rows, of 48 bytes each, follow one another.
    assert numbers(access(found, "x_ptr")) == (2, 288, 224, 1152, 36, 36)
    x, y = floats(24 * 16).view(24, 16), torch.zeros(32, 16)
    descriptor = TensorDescriptor(x, x.shape, x.stride(), [16, 16])
    found = trace(counted.descriptor_kernel, (2,), (descriptor, y, 16), BLOCK=16)
    assert torch.equal(y[:24], x) and not y[24:].any()
    assert numbers(access(found, "x")) == (2, 384, 128, 1536, 48, 48)
    isolated = lens.trace_triton(counted.descriptor_kernel, (2,), (descriptor, y, 16), BLOCK=16)
    assert isolated == found


def test_a_function_that_the_kernel_calls():
    x, y = floats(64), torch.zeros(64)
    found = trace(counted.helper_kernel, (2,), (x, y), BLOCK=64)
    assert torch.equal(y, 2 * x + 3)
    loaded = access(found, "x_ptr")
    assert (loaded.line, loaded.instructions) == (line_of("twice"), 2)
    assert numbers(loaded) == (8, 512, 0, 2048, 64, 64)


def test_one_access_of_two_arguments():
    x, w, y = floats(16), -floats(16), torch.zeros(16)
    found = trace(counted.either_kernel, (1,), (x, w, y), BLOCK=16)
    assert torch.equal(y, torch.cat([x[:8], w[8:]]))
    loaded = found.accesses[0]
    assert loaded.names == ("x_ptr", "w_ptr") and numbers(loaded) == (1, 16, 0, 64, 2, 2)


def test_outside():
    x, y = floats(1000), torch.zeros(1020)
    found = lens.trace_triton(counted.unmasked_kernel, (4,), (x, y, 0), BLOCK=256)
    read, written = found.findings
    assert (read.kind, read.lines, read.block, read.threads) == (
        "out of bounds",
        (line_of("unmasked loads"),),
        (3, 0, 0),
        (),
    )
    assert (read.address, read.count) == ("x_ptr[1000]", 24)
    assert "program (3, 0, 0) reads x_ptr[1000], one past the end of 1,000, with 24 of its 256 lanes" in str(read)
    assert (written.lines, written.address, written.count) == ((line_of("unmasked stores"),), "y_ptr[1020]", 4)
    assert "writes y_ptr[1020], one past the end of 1,020" in str(written)
    assert torch.equal(y[:1000], x) and y[1000:].isnan().all()  # what was read outside is no number
    assert found.totals["bytes_requested"] == 2 * 4096


def test_far_outside_touches_no_memory():
    found = lens.trace_triton(counted.unmasked_kernel, (1,), (floats(64), torch.zeros(16), 2**40), BLOCK=16)
    assert found.error is None and found.findings[0].address == f"x_ptr[{2**40}]" and found.findings[0].count == 16


def test_outside_of_views_and_before_the_beginning():
    memory = floats(64)
    found = trace(counted.unmasked_kernel, (1,), (memory[8:], torch.zeros(16), -10), BLOCK=16)
    (read,) = found.findings
    assert read.address == "x_ptr[-10]" and "10 elements before its beginning" in str(read) and read.count == 2
    assert trace(counted.unmasked_kernel, (1,), (memory[8:], torch.zeros(16), -8), BLOCK=16).findings == ()
    (read,) = trace(counted.unmasked_kernel, (1,), (memory[8:], torch.zeros(16), 41), BLOCK=16).findings
    assert read.address == "x_ptr[56]" and read.count == 1
    half = memory.bfloat16()
    (read,) = trace(counted.unmasked_kernel, (1,), (half[8:], half.clone(), 42), BLOCK=16).findings
    assert read.address == "x_ptr[56]" and "one past the end of 56" in str(read) and read.count == 2
    (read,) = trace(counted.unmasked_kernel, (1,), (memory, torch.zeros(16), 2**43), BLOCK=16).findings
    assert "none of the arguments is near" in str(read) and read.count == 16


def test_a_kernel_that_raises():
    x, y = floats(16), torch.zeros(16)
    found = lens.trace_triton(counted.wrong_shapes_kernel, (1,), (x, y), BLOCK=16)
    assert f"line {line_of('wrong shapes')}: ValueError: Cannot make_shape_compatible" in found.error
    assert [one.kind for one in found.accesses] == ["store", "load"] and not y.any()
    with pytest.raises(RuntimeError, match="wrong_shapes_kernel: line"):
        lens.count(lambda: counted.wrong_shapes_kernel[(1,)](x, y, BLOCK=16))


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
        triton_run.trace_here(JITFunction(counted.copy_kernel.fn), (1,), (), {"BLOCK": 16})


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
    """As IPython runs it: a file that is only known to linecache, and a module that nobody can import."""
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
    with triton_trace.watched(lambda *of: traces.append(triton_run.trace_here(*of))):
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
