"""What is wrong with a Triton kernel: lanes outside of its arguments, and errors of its own."""

import pytest
import torch
import triton_counted as counted  # before triton: see there
from triton_traced import floats, line_of, trace

from kernels import lens


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
