"""Tracing: what comes back, what does not, and what a kernel cannot do to the process that asks."""

import ctypes
import math

import pytest
import torch
from counted import MODULE, floats, trace

from kernels import lens
from kernels.cuda import CompileError, RawKernel, RawModule
from kernels.cuda.cpu import symbols
from kernels.cuda.source import Source
from kernels.lens.cuda import buffers
from kernels.lens.result import TOTALS


def test_lines():
    found = trace("transpose<33>", (1,), (32, 32), (floats(1024), torch.zeros(1024)))
    text = MODULE.code.splitlines()
    assert "tile[threadIdx.y][threadIdx.x] =" in text[found.accesses[0].line - 1]
    assert {one.line for one in found.accesses} == {found.accesses[0].line, found.accesses[0].line + 2}
    assert [one.names for one in found.line(found.accesses[0].line)] == [("x",), ("tile",)]


def test_lines_are_remembered_beside_the_library(tmp_path):
    library = tmp_path / "kernels.so"
    library.with_suffix(".places").write_text('{"16": [3, "f"], "32": [0, ""]}')
    assert symbols.source_lines(library, Source("", "k.cu", (), ()), [16, 32]) == {16: (3, "f"), 32: (0, "")}


def test_functions_put_in_place_of_their_calls():
    kernel = RawKernel(
        """
        __device__ float load(const float* x, int i) {
            return x[i];
        }
        extern "C" __global__ void f(const float* x, float* y) {
            y[threadIdx.x] = load(x, threadIdx.x) + load(x, 32 + threadIdx.x);
            atomicAdd(y, 1.0f);
        }
        """,
        "f",
    )
    found = lens.trace(kernel, (1,), (32,), (floats(64), torch.zeros(32)))
    assert [(one.line, one.kind, one.requests) for one in found.accesses] == [
        (3, "load", 2),
        (6, "store", 1),
        (7, "atomic", 1),
    ]


def test_the_share_of_the_busiest_warp():
    kernel = RawKernel(
        """
        extern "C" __global__ void f(const float* x, float* y) {
            extern __shared__ float s[];
            float sum = 0;
            for (int turn = 0; turn <= (blockIdx.x == 1 && threadIdx.x < 32 ? 5 : 2); ++turn) {
                sum += x[32 * turn + threadIdx.x % 32];
                s[threadIdx.x] = sum;
            }
            __syncthreads();
            sum += s[63 - threadIdx.x];
            atomicAdd(y, sum + x[0]);
        }
        """,
        "f",
    )
    found = lens.trace(kernel, (3,), (64,), (floats(256), torch.zeros(1)), shared_mem=256)
    assert not found.error, found.error
    assert found.busiest == {"x": 7, "y": 1, "s": 7}


def test_recursion_and_local_memory():
    x, y = floats(64), torch.zeros(1)
    found = trace("too_deep", (1,), (1,), (x, y, 20))
    assert y.item() == 7 + sum(range(1, 21))
    # Local memory is no access of global memory.
    assert sum(one.requests for one in found.accesses if one.kind == "load") == 21 * 64


def test_variables_outlive_a_trace():
    module = RawModule(code=MODULE.code, path="counted.cu")
    x = torch.zeros(1, dtype=torch.int32)
    for expected in (1, 2):
        lens.trace(module.get_function("remember"), (1,), (32,), (x,))
        assert x.item() == expected
    module.get_function("remember")((1,), (32,), (x,))
    assert x.item() == 3
    module.get_global("table", "cpu").view(torch.float32).copy_(floats(32))
    y = torch.zeros(32)
    lens.trace(module.get_function("look_up"), (1,), (32,), (y,))
    assert torch.equal(y, floats(32))


def test_tensors_of_one_storage():
    x = floats(128)
    found = trace("copy", (1,), (32,), (x[:32], x[64:96], 1, 0))
    assert torch.equal(x[64:96], floats(32)) and torch.equal(x[96:], floats(128)[96:])
    assert {one.names for one in found.accesses} == {("x",)}  # the first that lies there


def test_copies_lie_between_red_zones():
    x = floats(100)
    (copy, number, view), (buffer,) = buffers.surrounded((x[3:], 7, x[50:]))
    assert number == 7 and torch.equal(copy, x[3:]) and copy.data_ptr() == buffer.begin + 12
    assert view.data_ptr() == buffer.begin + 200 and buffer.end - buffer.begin == 400
    assert buffer.begin % 256 == 0 and buffer.zone_begin < buffer.begin < buffer.end < buffer.zone_end
    around = torch.empty(0).set_(copy.untyped_storage(), 0, (100,))
    beyond = (torch.frombuffer(_bytes(buffer.begin - 4, 4), dtype=torch.float32), around)
    assert math.isnan(beyond[0].item()) and torch.equal(around, x)
    assert torch.equal(buffers.surrounded((torch.empty(0),))[0][0], torch.empty(0))


def _bytes(address, size):
    return (ctypes.c_uint8 * size).from_address(address)


def test_some_of_the_blocks():
    x, y = torch.ones(64 * 64), torch.zeros(64 * 64)
    whole = trace("sums_of_blocks", (64,), (64,), (x, torch.zeros(64 * 64)))
    found = trace("sums_of_blocks", (64,), (64,), (x, y), blocks=16)
    assert not y.any()
    assert (found.blocks_run, found.blocks, found.scaled, whole.scaled) == (16, 64, True, False)
    assert found.totals["global_store_requests"] == whole.totals["global_store_requests"] == 128
    assert "scaled: 16 of 64 blocks" in found._repr_html_()
    assert trace("sums_of_blocks", (64,), (64,), (x, y), blocks=64) == whole
    with pytest.raises(ValueError, match="blocks must be a number of blocks"):
        trace("sums_of_blocks", (64,), (64,), (x, y), blocks=0)


def test_a_launch_that_stops_has_a_trace():
    x = torch.zeros(32)
    found = trace("one_sided_barrier", (1,), (32,), (x,))
    assert "a barrier that not every thread reaches" in found.error
    assert found.totals["global_store_requests"] == 1
    assert not x.any()


@pytest.mark.parametrize("far", [10**8, -(10**8)])
def test_a_wild_pointer_does_no_harm(far):
    x = torch.zeros(32)
    found = trace("out_of_bounds", (1,), (32,), (x, far))
    assert found.error and not x.any()
    assert trace("out_of_bounds", (1,), (32,), (x, 31)).error is None and x[31] == 1


def test_errors_before_the_launch():
    x = floats(32)
    with pytest.raises(ValueError, match="block is"):
        trace("copy", (1,), (2048,), (x, x, 1, 0))
    with pytest.raises(TypeError, match="takes 4 arguments, got 2"):
        trace("copy", (1,), (32,), (x, x))
    with pytest.raises(ValueError, match="shared_mem is"):
        trace("copy", (1,), (32,), (x, x, 1, 0), 1 << 20)
    with pytest.raises(CompileError, match="does not compile"):
        lens.trace(RawKernel('extern "C" __global__ void f() { no }', "f"), (1,), (1,), ())


def test_a_trace_as_json():
    found = trace("atomics", (2,), (32,), (torch.zeros(1), torch.zeros(256, dtype=torch.int32)))
    again = type(found).from_json(found.as_json())
    assert again == found and again.totals == found.totals


def test_every_launch_of_a_call_is_counted():
    copy, copy4 = MODULE.get_function("copy"), MODULE.get_function("copy4")

    def call(x, times):
        y = torch.empty(32)
        for _ in range(times):
            copy((1,), (32,), (x, y, 1, 0))
        z = torch.empty(32)
        copy4((1,), (8,), (y, z))
        assert torch.equal(z, x)

    found = lens.count(call, x=floats(32), times=3)
    assert [one.kernel for one in found.traces] == ["copy"] * 3 + ["copy4"]
    assert list(found.totals) == list(TOTALS)
    assert found.totals["launches"] == 4 and found.totals["global_load_sectors"] == 16
    with pytest.raises(ValueError, match="launched nothing"):
        lens.count(lambda x: x.view(3, 1), x=floats(3))
    with pytest.raises(RuntimeError, match="a barrier that not every thread reaches"):
        lens.count(lambda x: MODULE.get_function("one_sided_barrier")((1,), (32,), (x,)), x=floats(32))
    copy((1,), (32,), (floats(32), torch.zeros(32), 1, 0))  # and is a launch again
