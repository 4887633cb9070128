"""Tracing a kernel that is wrong: a clear error, the process lives, and the next trace works. On a GPU machine too."""

import pytest
import torch

from kernels import lens, worker
from kernels.cuda import LaunchError, RawKernel, isolated
from kernels.lens.cuda import instrumented

HEAD = """__device__ int deep(int n, volatile int* x) {
    volatile int a[64];
    a[n & 63] = n;
    return n ? deep(n - 1, x) + a[(n + 1) & 63] : x[0];
}
__global__ void k(int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = 100;
    BODY
}
"""
BODY_LINE = HEAD.splitlines().index("    BODY") + 1
STACK = "volatile char a[1 << 20]; for (int j = 0; j < 1 << 20; ++j) a[j] = a[j] + i; x[i] = a[n];"
MEMORY = (
    "for (;;) { volatile char* p = (volatile char*)malloc(1 << 20); for (int j = 0; j < 1 << 20; j += 4096) p[j] = 1; }"
)

STACKS = "a stack that does not hold what was put there|memory that is not there"

# What stops the worker …
STOPPED = {
    "an endless loop": ("for (;;) ;", worker.TimeLimit, "stopped after 1 s"),
    "a spin-wait": ("volatile int* flag = x; while (*flag != 77) ;", worker.TimeLimit, "stopped after 1 s"),
    "endless allocation": (MEMORY, worker.MemoryLimit, "stopped when it had taken 256 MiB"),
}
# … and what stops the launch, which then has a trace of what ran before.
ERRORS = {
    "a wild pointer": ("x[(1ll << 40) + i] = 1;", "memory that is not there"),
    "a null pointer": ("*(volatile int*)0 = 1;", "memory that is not there"),
    "a stack overwritten": (
        "int own[4]; int* p = own; for (int j = 0; j < 256; ++j) p[j + n / 16] = -1; x[i] = own[i & 3];",
        STACKS,
    ),
    "a call of what is no code": ("((void (*)())16)();", "memory that is not there"),
    "recursion": ("x[i] = deep(1 << 24, x);", r"a stack overflow on line \d of k.cu .* in block .0, 0, 0., thread"),
    "a large array": (STACK, "a stack overflow"),
    "a trap": ("if (i == 3) __trap();", f"__trap.. on line {BODY_LINE} of k.cu .* thread .3, 0, 0."),
    "abort": ("abort();", "abort.., which would end the whole process"),
    "exit": ("if (i == 5) std::exit(3);", "exit.., which would end the whole process .* thread .5, 0, 0."),
}


def traced(body, x, **limits):
    return lens.trace(RawKernel(HEAD.replace("BODY", body), "k"), (1,), (64,), (x, x.numel()), **limits)


def unharmed(x):
    """The tensor is as it was, and a next trace works on it."""
    before = torch.arange(64, dtype=torch.int32)
    assert torch.equal(x.cpu(), before)
    assert traced("x[i] = i + 1;", x).error is None
    assert torch.equal(x.cpu(), before + 1)


@pytest.mark.parametrize("disaster", STOPPED)
def test_a_disaster_that_stops_the_worker(disaster):
    body, error, words = STOPPED[disaster]
    x = torch.arange(64, dtype=torch.int32)
    traced("", x.clone())  # the lens is compiled: what is measured is the call alone
    with pytest.raises(error, match=f"^k: {words}"):
        traced(body, x, seconds=20 if error is worker.MemoryLimit else 1, memory_bytes=256 << 20)
    unharmed(x)


@pytest.mark.slow  # with time for a busy machine to come to the launch
def test_a_time_limit_names_the_place():
    kernel = RawKernel(HEAD.replace("BODY", "for (;;)\nx[i] += 1;"), "k")
    kernel._module.first_that_compiles("k", instrumented.library)  # what is measured is the launch
    place = f"(on line ({BODY_LINE}|{BODY_LINE + 1}) of k.cu|in a loop)"  # where it was, or where it let others go on
    with pytest.raises(worker.TimeLimit, match=f"It was {place},? in block .0, 0, 0., thread"):
        lens.trace(kernel, (1,), (64,), (torch.zeros(64, dtype=torch.int32), 64), seconds=3)


@pytest.mark.parametrize("disaster", ERRORS)
def test_a_disaster_that_stops_the_launch(disaster):
    body, words = ERRORS[disaster]
    x = torch.arange(64, dtype=torch.int32)
    found = traced(body, x)
    with pytest.raises(AssertionError, match=words):
        assert not found.error, found.error
    unharmed(x)


ON_A_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: torch.cuda is not available")


@ON_A_GPU
def test_tensors_on_a_gpu_are_traced_on_the_cpu():
    x, y = (torch.arange(64, dtype=torch.int32, device=device) for device in ("cuda", "cpu"))
    body = "atomicAdd(&x[i / 32], x[63 - i]);"
    assert traced(body, x) == traced(body, y)
    assert x.device.type == "cuda" and torch.equal(x.cpu(), y)


@ON_A_GPU
@pytest.mark.parametrize("disaster", STOPPED | ERRORS)
def test_a_disaster_does_no_harm_to_tensors_on_a_gpu(disaster):
    x = torch.arange(64, dtype=torch.int32, device="cuda")
    body, *_ = (STOPPED | ERRORS)[disaster]
    try:
        assert traced(body, x, seconds=5, memory_bytes=256 << 20).error
    except worker.WorkerError:
        assert disaster in STOPPED
    unharmed(x)


@ON_A_GPU
def test_a_trace_after_a_launch_that_lost_its_context():
    x = torch.arange(64, dtype=torch.int32, device="cuda")
    with pytest.raises(LaunchError, match="illegal memory access"):
        isolated(RawKernel(HEAD.replace("BODY", ERRORS["a wild pointer"][0]), "k"), (1,), (64,), (x, 64))
    unharmed(x)
