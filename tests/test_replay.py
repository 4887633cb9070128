"""Calls that come again: what is repeated computes the same, and what cannot be repeated is not."""

import gc
import weakref

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from kernels import replay
from kernels.cuda import RawKernel
from kernels.cuda.kernel import watched
from kernels.machine import compiler
from kernels.replay import MOST, UNLIKE

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
pytestmark = pytest.mark.skipif(not ON_GPU and compiler() is None, reason="no C++ compiler")
N = 96


def replaying(kernel):
    """As a registered kernel is called."""
    slow, quick = replay.replaying(kernel)

    def call(*args):
        return slow(*args) if (result := quick(args)) is UNLIKE else result

    call.slow = slow
    return call


ADD = RawKernel(
    r"""extern "C" __global__ void add(const float* x, const float* y, float* z, int n, float scale)
    {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) z[i] = x[i] + scale * (y ? y[i] : 1.0f);
    }""",
    "add",
)


def add(x, y, z, scale=1.0):
    ADD((-(-z.numel() // 32),), (32,), (x, y, z, z.numel(), np.float32(scale)))
    return z


@pytest.fixture(autouse=True)
def like_a_gpu(monkeypatch):
    """Here too, tensors say that they are on a GPU: what they are launched on, and what is repeated, are the same."""
    if not ON_GPU:
        monkeypatch.setattr(torch.Tensor, "get_device", lambda tensor: 0)
        monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)


def tensors(count=2, n=N):
    return [torch.randn(n, device=DEVICE) for _ in range(count)]


def calls_of(kernel, times=5, make=tensors):
    """How often the Python of a kernel ran in so many calls on fresh tensors, each compared with the kernel's own result."""
    ran = []

    def counted(*args):
        ran.append(args)
        return kernel(*args)

    repeated, kept = replaying(counted), []
    for _ in range(times):
        args = make()
        kept.append((repeated(*args), kernel(*args)))
    for result, expected in kept:
        pairs = zip(result, expected, strict=True) if type(expected) is tuple else [(result, expected)]
        for one, other in pairs:
            assert one is other is None or (torch.equal(one, other) and one.stride() == other.stride())
    return len(ran)


def sums(x, y):
    """Two outputs, one of another dtype and shape, None between them, and memory of its own between two launches."""
    between, z = torch.empty_like(x), x.new_empty(x.shape)
    add(x, y, between)
    add(between, None, z, 3.0)
    counts = torch.empty((2, x.numel() // 2), dtype=torch.int32, device=x.device)
    ADD((3,), (32,), (x, x, counts.view(torch.float32), N, np.float32(1.0)))
    return z.view(-1, 2), None, counts


def views(x, y):
    """Kernels read parts of an input and write parts of the output."""
    z = torch.empty_like(x)
    add(x[: N // 2], y[N // 2 :], z[N // 2 :])
    add(x[N // 2 :], y[: N // 2], z[: N // 2])
    return z


def update(x, y):
    add(x, y, x)


def through_nothing(x, y):
    """A buffer without elements has an address, too."""
    return add(x, x.new_empty(0), add(x, y, torch.empty_like(x)))


@pytest.mark.parametrize("kernel", [sums, views, through_nothing])
def test_what_comes_again_is_repeated(kernel):
    assert calls_of(kernel) == 2


def test_nothing_is_kept():
    repeated, kept = replaying(sums), []
    for _ in range(5):
        x, y = tensors()
        kept += [weakref.ref(tensor) for tensor in (x, y, *repeated(x, y)) if tensor is not None]
    del x, y
    gc.collect()
    assert len(kept) == 20
    assert not [ref for ref in kept if ref() is not None]


def test_updates_are_repeated():
    repeated = replaying(update)
    for _ in range(5):
        x, y = tensors()
        expected = x + y
        assert repeated(x, y) is None
        torch.testing.assert_close(x, expected, rtol=0, atol=0)


def empty(x, y):
    return torch.empty_like(x)


def copied(x, y):
    return add(x.flip(0), y, torch.empty_like(x))


def asks_for_a_value(x, y):
    return add(x, y, torch.empty_like(x), float(y[0]))


def part_of_a_buffer(x, y):
    return add(x, y, x.new_empty(2 * N)[:N])


def twice(x, y):
    z = add(x, y, torch.empty_like(x))
    return z, z.view(2, -1)


def in_shared_memory(x, y):
    buffer = x.new_empty(2, N)
    return add(x, y, buffer[0]), add(y, x, buffer[1])


@pytest.mark.parametrize("kernel", [empty, copied, asks_for_a_value, part_of_a_buffer, twice, in_shared_memory])
def test_what_is_more_than_launches_is_not_repeated(kernel):
    if kernel is empty:
        repeated = replaying(lambda *args: ran.append(1) or kernel(*args))
        ran = []
        for _ in range(4):
            repeated(*tensors())
        assert len(ran) == 4
    else:
        assert calls_of(kernel) == 5


def cleared_first(x, y):
    x.zero_()
    add(x, y, x)


def test_what_is_not_seen_is_not_repeated():
    repeated = replaying(cleared_first)
    with torch._C._DisableTorchDispatch():  # as in a tensor subclass: no mode sees what is called
        for _ in range(4):
            x, y = tensors()
            repeated(x, y)
            assert torch.equal(x, y)


def test_one_tensor_as_two_arguments_is_not_repeated_for_others():
    x, y = tensors()
    repeated = replaying(lambda x, y: add(x, y, torch.empty_like(x)))
    for _ in range(3):
        assert torch.equal(repeated(x, x), x + x)
    for _ in range(3):
        assert torch.equal(repeated(x, y), x + y)


def described(x, value):
    """All that the Python side of a kernel may go by, as a number that the kernel writes."""
    facts = tuple(x.shape), x.stride(), x.dtype, x.data_ptr() % 16, repr(value)
    return add(
        x.view(torch.float32),
        None,
        torch.empty_like(x).view(torch.float32),
        DESCRIPTIONS.setdefault(facts, len(DESCRIPTIONS)),
    )


DESCRIPTIONS = {}
MEMORY = torch.zeros(4, 2 * N, device=DEVICE)
ALIKE_BUT_FOR = {
    "nothing": (MEMORY[0, :N], 1.0),
    "shape": (MEMORY[0, :N].view(2, -1), 1.0),
    "strides": (MEMORY[:2, : N // 2], 1.0),
    "dtype": (MEMORY[0, :N].view(torch.int32), 1.0),
    "alignment": (MEMORY[0, 1 : N + 1], 1.0),
    "class": (torch.nn.Parameter(MEMORY[0, :N]), 1.0),
} | {repr(value): (MEMORY[0, :N], value) for value in (1, True, None, 0.0, -0.0, 2.0)}


@pytest.mark.parametrize("first", ALIKE_BUT_FOR)
def test_a_call_that_differs_is_another(first):
    repeated = replaying(described)
    for other in ALIKE_BUT_FOR:
        for name in (first, first, first, first, other, other, other, other, first):
            args = ALIKE_BUT_FOR[name]
            assert torch.equal(repeated(*args), described(*args)), (name, other)


@pytest.mark.parametrize("outside", ["profiler", "mode", "transform", "trace", "fake"])
def test_the_quick_way_is_not_for_those_who_look_on(outside):
    slow, quick = replay.replaying(lambda x: add(x, None, torch.empty_like(x)))
    x = torch.zeros(N, device=DEVICE)
    for _ in range(3):
        slow(x)
    assert quick((x,)) is not UNLIKE
    found = []

    def ask(x):
        found.append(quick((x,)))
        return x

    if outside == "profiler":
        with torch.profiler.profile():
            ask(x)
    elif outside == "mode":
        with TorchDispatchMode():
            ask(x)
    elif outside == "transform":
        torch.func.vmap(ask)(x[None])
    elif outside == "trace":
        torch.jit.trace(ask, (x,), check_trace=False)
    else:
        with FakeTensorMode() as mode:
            ask(mode.from_tensor(x))
    assert found == [UNLIKE]


def test_the_quick_way_knows_the_last_few_shapes():
    slow, quick = replay.replaying(lambda x: add(x, None, torch.empty_like(x)))
    few = [torch.randn(n, device=DEVICE) for n in range(1, replay.FEW + 1)]
    for _ in range(3):
        for x in few:
            slow(x)
    for x in few:
        assert torch.equal(quick((x,)), x + 1)
    for _ in range(3):
        slow(torch.zeros(N, device=DEVICE))
    assert [quick((x,)) is UNLIKE for x in few] == [True] + [False] * (len(few) - 1)  # the oldest is forgotten
    assert quick((torch.zeros(N, device=DEVICE),)) is not UNLIKE


def test_the_quick_way_is_not_for_other_kinds_of_arguments():
    slow, quick = replay.replaying(lambda x, y, scale: add(x, y, torch.empty_like(x), scale))
    x, y = tensors()
    scale = 2.0
    for _ in range(3):
        slow(x, y, scale)
    assert torch.equal(quick((x, y, scale)), x + scale * y)
    assert [quick(args) for args in ((x, None, scale), (None, y, scale), (x, y, y), (x, 2.0, scale))] == [UNLIKE] * 4


def test_calls_are_forgotten_before_they_are_too_many():
    ran = []
    repeated = replaying(lambda x, number: ran.append(number))
    x = torch.zeros(1, device=DEVICE)
    for number in range(MOST + 5):
        repeated(x, number)
    (known,) = [cell.cell_contents for cell in repeated.slow.__closure__ if type(cell.cell_contents) is dict]
    assert len(known) <= MOST


def test_who_watches_sees_every_launch():
    repeated, seen = replaying(lambda x, y: add(x, y, torch.empty_like(x))), []
    for _ in range(3):
        repeated(*tensors())
    with watched(lambda *launch: seen.append(launch)):
        repeated(*tensors())
    assert len(seen) == 1
    torch.use_deterministic_algorithms(True)  # under which PyTorch fills what is allocated with NaN
    try:
        assert calls_of(sums) == 5
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_call_within_a_call_is_recorded_with_it():
    inner = replaying(lambda x, y: add(x, y, torch.empty_like(x)))
    for _ in range(3):
        inner(*tensors())
    assert calls_of(lambda x, y: add(inner(x, y), y, torch.empty_like(x))) == 2


def test_the_checks_of_a_launch_are_made_before_it_is_recorded():
    repeated = replaying(lambda x, threads: ADD((1,), (threads, 2), (x, None, x, N, np.float32(1))))
    for _ in range(3):
        with pytest.raises(ValueError, match="more than the 1,024"):
            repeated(torch.zeros(N, device=DEVICE), 1024)
