"""Triton kernels in the lens, against what is counted by hand."""

import pytest
import torch
import triton_counted as counted  # before triton: see there
from triton.tools.tensor_descriptor import TensorDescriptor
from triton_traced import access, floats, line_of, numbers, trace

from kernels import lens
from kernels.lens.result import TRITON_TOTALS


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


def test_constants_on_the_left_and_the_share_of_the_busiest_program():
    x, y = floats(3 * 16), torch.zeros(3 * 16)
    found = trace(counted.shares_kernel, (3,), (x, y), BLOCK=16)
    assert torch.equal(y, 3 * x.view(3, 16).cumsum(0).flatten())
    assert found.busiest == {"x_ptr": 3, "y_ptr": 1}
    assert isinstance(counted.OFFSET, counted.tl.constexpr)


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
