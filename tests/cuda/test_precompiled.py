"""The header compiled beforehand saves time and changes nothing."""

from pathlib import Path

import pytest
import torch

from kernels.cuda import CompileError, LaunchError, RawKernel
from kernels.cuda.cpu import build, compiler, precompiled
from kernels.cuda.source import Source
from kernels.lens.cuda import instrumented

pytestmark = pytest.mark.skipif(
    compiler.machine.compiler() is None or compiler.is_clang(), reason="needs g++: clang reads the header itself"
)
SCALE = """extern "C" __global__ void scale(float* x) {
    __shared__ float all[32];
    all[threadIdx.x] = x[threadIdx.x] + __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 1);
    __syncthreads();
    x[threadIdx.x] = FACTOR * all[31 - threadIdx.x];
}"""


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty one, but for what kernels call."""
    build.runtime_library()
    instrumented.lens_library()
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path))
    return tmp_path


def scaled(factor: int, *options: str) -> torch.Tensor:
    x = torch.ones(32)
    RawKernel(SCALE, "scale", options=(f"-DFACTOR={factor}", *options))((1,), (32,), (x,))
    return x


def headers(cache: Path) -> list[Path]:
    return sorted(cache.rglob("*.gch"))


def test_libraries_are_the_same_bytes(cache, monkeypatch):
    source = Source(SCALE, "scale.cu", ("-DFACTOR=2",), ("scale",))
    made = []
    for _ in range(2):
        paths = build.kernel_library(source), instrumented.library(source)
        made.append([path.read_bytes() for path in paths])
        for path in paths:
            path.unlink()
        monkeypatch.setattr(precompiled, "found_by", lambda options: [])
    assert made[0] == made[1]
    assert len(headers(cache)) == 2


def test_it_is_made_once(cache):
    assert (scaled(2) == 4).all()
    made = headers(cache)
    assert len(made) == 1
    assert made[0].stat().st_size > 1 << 20
    when = made[0].stat().st_mtime_ns
    assert (scaled(3) == 6).all()
    assert headers(cache) == made
    assert made[0].stat().st_mtime_ns == when


def test_a_macro_that_the_header_asks_for_counts(cache):
    """g++ then reads the header itself: what is compiled beforehand was compiled without it."""
    code = """extern "C" __global__ void k(float* x) { assert(false); x[0] = 1; }"""
    x = torch.zeros(1)
    with pytest.raises(LaunchError, match="assert"):
        RawKernel(code, "k")((1,), (1,), (x,))
    RawKernel(code, "k", options=("-DNDEBUG",))((1,), (1,), (x,))
    assert x.item() == 1


@pytest.mark.parametrize("bytes_left", [0, 100, 1 << 20])
def test_one_that_is_damaged_is_done_without(cache, bytes_left):
    scaled(2)
    (made,) = headers(cache)
    made.write_bytes(made.read_bytes()[:bytes_left])
    assert (scaled(3) == 6).all()


def test_what_was_made_of_other_headers_is_removed(cache):
    scaled(2)
    (made,) = headers(cache)
    folder = made.parents[1]
    folder.rename(folder.with_name("older"))
    scaled(3)
    assert headers(cache) == [made]
    assert not folder.with_name("older").exists()


def test_an_error_is_told_as_without_it(cache, monkeypatch):
    said = []
    for _ in range(2):
        with pytest.raises(CompileError, match="nowhere") as caught:
            RawKernel("__global__ void k(float* x) { x[0] = nowhere; }", "k")((1,), (1,), (torch.ones(1),))
        said.append(str(caught.value))
        monkeypatch.setattr(precompiled, "found_by", lambda options: [])
    assert said[0] == said[1]
