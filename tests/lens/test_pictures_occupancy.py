"""Occupancy: the formula against the driver of an H200, and its picture."""

import json
import re
from pathlib import Path

import pytest
from counted import MODULE

from kernels import lens
from kernels.cuda import CompileError, RawKernel
from kernels.lens.cuda.resources import compiled

STORED = json.loads((Path(__file__).parent / "hardware" / "occupancy.json").read_text())
TEXT = """
extern "C" __global__ void plain(float* x) { x[threadIdx.x] += 1; }
template <int n> __global__ void shared(float* x) {
    __shared__ float all[n];
    all[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = all[n - 1 - threadIdx.x];
}
"""


def test_it_equals_what_the_driver_says():
    assert "H200" in STORED["machine"]["gpu"]
    compared, wrong = 0, []
    for registers, threads, blocks in STORED["rows"]:
        for shared_bytes, expected in zip(STORED["shared_bytes"], blocks, strict=True):
            found = lens.Occupancy(threads, registers, shared_bytes).blocks
            compared += 1
            if found != expected:
                wrong.append(f"{threads} threads, {registers} registers, {shared_bytes} bytes: {found}, not {expected}")
    assert compared >= 200 and not wrong, "\n".join(wrong[:20])
    assert len({blocks for *_, row in STORED["rows"] for blocks in row}) > 15


def test_what_limits():
    assert lens.Occupancy(256, 32).limited_by == ("warps", "registers")
    assert lens.Occupancy(32, 32).limited_by == ("blocks",)
    assert lens.Occupancy(256, 33).limited_by == ("registers",)
    held = lens.Occupancy(256, 32, 100_000)
    assert (held.limited_by, held.blocks, held.warps) == (("shared memory",), 2, 16)
    assert lens.Occupancy(1000, 16).warps == 64  # a block of 1,000 threads takes 32 warps
    assert lens.Occupancy(1024, 65).blocks == 0
    assert str(held).startswith("16 of 64 warps: 2 blocks of 256 threads with 32 registers each, and 100,000 bytes of")
    assert str(lens.Occupancy(256, 32, 200_000)).startswith("8 of 64 warps: 1 block of 256 threads")


@pytest.mark.parametrize("wrong", [(0, 32), (1025, 32), (32, 0), (32, 256), (32, 32, 232_449), (32, 32, -1)])
def test_what_cannot_be_launched_is_an_error(wrong):
    with pytest.raises(ValueError, match=re.escape("on sm_90")):
        lens.Occupancy(*wrong)


def test_the_picture():
    own = lens.Occupancy(256, 40, 30_000)
    picture = own.figure()
    curves = picture.figure.data[::2]
    for curve, resource, unit in zip(curves, ("threads", "registers", "shared_bytes"), (1, 1, 1024), strict=True):
        here = list(curve.x).index(getattr(own, resource) / unit)
        assert curve.y[here] == own.warps == 48
    assert curves[1].y[0] == 56 and curves[1].y[-1] == 8
    assert str(own) in picture.alt
    assert json.dumps(picture._repr_mimebundle_()) == json.dumps(own.figure()._repr_mimebundle_())


def test_a_kernel_as_nvrtc_compiles_it():
    pytest.importorskip("cuda.bindings.nvrtc")
    found = lens.occupancy(RawKernel(TEXT, "shared<256>"), (16, 16), shared_mem=100)
    assert (found.threads, found.shared_bytes) == (256, 1124) and 4 < found.registers < 40
    assert compiled(RawKernel(TEXT, "plain"))["shared_bytes"] == 0
    assert compiled(RawKernel(TEXT, "shared<64>"))["shared_bytes"] == 256
    assert compiled(MODULE.get_function("transpose<33>"))["shared_bytes"] == 4 * 32 * 33
    with pytest.raises(CompileError, match=r'f.cu does not compile \(NVRTC\):[^$]*identifier "no" is undefined'):
        compiled(RawKernel('extern "C" __global__ void f() {\n no; }', "f"))
