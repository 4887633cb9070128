"""Launches of Triton kernels: bfloat16 in the interpreter, and on a GPU those that are repeated."""

import itertools
from types import SimpleNamespace

import pytest
import torch
import triton
import triton.language as tl
from triton.knobs import runtime
from triton.runtime.jit import JITFunction

from kernels.machine import interpreting
from kernels.replay import replaying
from kernels.triton import launch as triton_launch
from kernels.triton.launch import launch

only_interpreted = pytest.mark.skipif(not interpreting(), reason="Triton is the compiler here")


@triton.jit
def scale_kernel(x_ptr, y_ptr, row_stride, N, BLOCK_N: tl.constexpr):
    columns = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + tl.program_id(0) * row_stride + columns, mask=columns < N)
    tl.store(y_ptr + tl.program_id(0) * N + columns, x.to(tl.float32) * 1.1, mask=columns < N)


def expected(x: torch.Tensor) -> torch.Tensor:
    return (x.float() * 1.1).bfloat16()


@only_interpreted
@pytest.mark.parametrize("layout", ["contiguous", "strided", "expanded"])
def test_bfloat16_is_right_in_the_interpreter(layout):
    memory = torch.randn(3, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    x = {"contiguous": memory[:, :5].contiguous(), "strided": memory[:, 2:7], "expanded": memory[:1, :5].expand(3, 5)}[
        layout
    ]
    before = memory.clone()
    y = torch.full((3, 5), float("nan"), dtype=torch.bfloat16)
    launch(scale_kernel, (3,), x, y, x.stride(0), 5, BLOCK_N=8)
    torch.testing.assert_close(y, expected(x), rtol=0, atol=0)
    torch.testing.assert_close(memory, before, rtol=0, atol=0)


@only_interpreted
def test_without_it_the_interpreter_is_wrong():
    """The day this fails, the interpreter has learnt bfloat16 and the widening can go."""
    x = torch.randn(1, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    y = torch.zeros_like(x)
    scale_kernel[(1,)](x, y, 64, 64, BLOCK_N=64)
    assert not torch.equal(y, expected(x))


def copy_kernel(x_ptr, y_ptr, N, scale, BLOCK_N: tl.constexpr):
    columns = tl.arange(0, BLOCK_N)
    tl.store(y_ptr + columns, tl.load(x_ptr + columns, mask=columns < N) * scale, mask=columns < N)


def copied(x, scale):
    y = torch.empty_like(x)
    launch(copy_kernel, (1,), x, y, x.numel(), scale, BLOCK_N=64)
    return y


@pytest.fixture
def on_a_gpu(monkeypatch):
    """Launches as on a GPU: those that reached Triton, and those of machine code, each a grid and arguments."""
    by_triton, repeated = [], []

    def run(kernel, *args, grid, warmup, **options):
        by_triton.append((grid, args))
        return SimpleNamespace(
            run=lambda *given: repeated.append((given[:3], given[9:], given[6:9])),
            function=1,
            packed_metadata=(4, 1, 0),
            launch_metadata=lambda grid, stream, *args: "about it",
        )

    monkeypatch.setattr(JITFunction, "run", run)
    monkeypatch.setattr(triton_launch, "interpreting", lambda: False)
    monkeypatch.setattr(torch.Tensor, "get_device", lambda tensor: 0)
    for name in ("_cuda_getDevice", "_cuda_getCurrentRawStream"):
        monkeypatch.setattr(torch._C, name, lambda *device: 0, raising=False)
    return by_triton, repeated


def test_a_repeated_launch_gets_addresses_and_constants(on_a_gpu, monkeypatch):
    by_triton, repeated = on_a_gpu
    monkeypatch.setitem(globals(), "copy_kernel", JITFunction(copy_kernel))
    (again, _), x = replaying(copied), torch.zeros(48)
    results = [again(x, 0.5) for _ in range(4)]
    assert len(by_triton) == 2
    expected = [((1, 1, 1), (x.data_ptr(), y.data_ptr(), 48, 0.5, 64), (None,) * 3) for y in results[2:]]
    assert repeated == expected
    hook = SimpleNamespace(calls=[print])
    monkeypatch.setattr(runtime, "launch_exit_hook", hook)
    again(x, 0.5)
    assert repeated[-1][2] == ("about it", runtime.launch_enter_hook, hook)


@pytest.mark.parametrize("name", ["pre_run_hooks", "used_global_vals"])
def test_where_triton_does_more_it_does_all(name, on_a_gpu, monkeypatch):
    by_triton, repeated = on_a_gpu
    kernel = JITFunction(copy_kernel)
    setattr(kernel, name, [print])
    monkeypatch.setitem(globals(), "copy_kernel", kernel)
    (again, _), x = replaying(copied), torch.zeros(48)
    for _ in range(4):
        again(x, 0.5)
    assert (len(by_triton), len(repeated)) == (4, 0)


@only_interpreted
def test_the_interpreter_is_never_repeated(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "get_device", lambda tensor: 0)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    monkeypatch.setitem(globals(), "copy_kernel", triton.jit(copy_kernel))
    again, _ = replaying(copied)
    for _ in range(4):
        x = torch.randn(48)
        assert torch.equal(again(x, 0.5), x * 0.5)


@pytest.mark.skipif(interpreting() or not torch.cuda.is_available(), reason="launches on a GPU")
def test_repeated_launches_compute_on_a_gpu(monkeypatch):
    monkeypatch.setitem(globals(), "copy_kernel", triton.jit(copy_kernel))
    (again, _), memory = replaying(copied), torch.randn(64, device="cuda")
    for _ in range(4):
        for start, N, scale in itertools.product((0, 1, 2, 4), (1, 2, 16, 17, 32), (0.5, 1.0, 3)):
            x = memory[start : start + N]
            assert torch.equal(again(x, scale), x * scale)
