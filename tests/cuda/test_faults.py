"""Mistakes that a processor refuses: they end the launch, name the line and the thread, and leave the process as it was."""

import mmap
import os
import signal
import threading

import pytest
import torch

from kernels.cuda import LaunchError, RawKernel, order

DEEP = "__device__ int deep(int n) { int a[64]; a[n % 64] = n; return deep(n + 1) + a[n % 7]; }"


def launched(body, args=None, grid=(1,), block=(64,), parameters="float* x", **options):
    """The first argument, after a kernel whose body begins on line 3."""
    args = args or (torch.zeros(64),)
    RawKernel(f"{DEEP}\n__global__ void k({parameters}) {{\n{body}\n}}", "k")(grid, block, args, **options)
    return args[0]


@pytest.mark.parametrize(
    "body, words",
    [
        (
            "if (threadIdx.x == 5)\n x[threadIdx.x + 59] = 1;",
            r"out of bounds on line 4 of k.cu: .*thread \(5, 0, 0\) writes x\[64\], outside of its 64 elements",
        ),
        ("x[threadIdx.x] = x[64 + threadIdx.x];", r"line 3 .*thread \(0, 0, 0\) reads x\[64\]"),
        (
            "x[threadIdx.x * -100000000000ll] = 1;",  # below what Linux maps next
            r"line 3 .*thread \(1, 0, 0\) writes memory that belongs to no argument",
        ),
        ("x[(int)threadIdx.x - 1] = 1;", r"writes x\[-1\], outside of its 64 elements; seen when the launch had ended"),
        (
            "__shared__ float s[64];\ns[threadIdx.x + 1] = 1;\n__syncthreads(); x[0] = s[threadIdx.x + 1];",
            r"line 4 .*thread \(63, 0, 0\) writes beyond the block's __shared__ arrays",
        ),
        ("x[0] = deep(1);", r"a stack overflow on line 1 .*thread \(0, 0, 0\): recursion without an end"),
        (
            "float a[150000]; for (int i = 0; i < 150000; ++i) a[i] = x[i % 8]; x[0] = a[int(x[1])];",
            "a stack overflow on line 2 .*more than 512 KiB of local memory",
        ),
    ],
)
def test_a_mistake_names_its_line_and_its_thread(body, words):
    with pytest.raises(LaunchError, match=words):
        launched(body)
    assert launched("x[threadIdx.x] = 3;").eq(3).all()


TOO_MUCH = """
#include <cooperative_groups.h>
__device__ __attribute__((noinline)) float much(const float* x) {
    float a[155000]; for (int i = 0; i < 155000; ++i) a[i] = x[i % 8];
    return a[int(x[1])];
}
extern "C" __global__ void k(float* x, int n) {
    cooperative_groups::this_grid().sync();
    if (blockIdx.x * blockDim.x + threadIdx.x == n) x[0] = much(x);
    cooperative_groups::this_grid().sync();
}"""


def test_more_stacks_than_guards_that_linux_has_room_for():
    """32,768 threads that wait for each other: each is guarded while it runs, the first as well as the last."""
    kernel, x = RawKernel(TOO_MUCH, "k", enable_cooperative_groups=True), torch.zeros(8)
    for thread in (32_767, 5):
        where = rf"block \({thread // 1024}, 0, 0\), thread \({thread % 1024}, 0, 0\)"
        with pytest.raises(LaunchError, match=f"a stack overflow .*{where}"):
            kernel((32,), (1024,), (x, thread))
        kernel((32,), (1024,), (x, -1))


def test_a_stack_that_is_full_when_the_runtime_is_called():
    body = "float a[155000]; for (int i = 0; i < 155000; ++i) a[i] = x[i % 8]; __syncthreads(); x[0] = a[int(x[1])];"
    with pytest.raises(LaunchError, match="a stack overflow on line 2 .*more than 512 KiB of local memory"):
        launched(body)


def test_a_null_pointer():
    with pytest.raises(LaunchError, match=r"a null pointer on line 3 of k.cu: .*thread \(0, 0, 0\) writes what"):
        launched("x[threadIdx.x] = 1;", (None,))
    with pytest.raises(LaunchError, match="a null pointer on line 3 .* reads what .* a tensor without elements"):
        launched("y[0] = x[0];", (torch.zeros(0), torch.zeros(1)), parameters="const float* x, float* y")


def test_a_block_of_many_and_an_argument_after_others():
    x, y = torch.zeros(2, 256)
    with pytest.raises(LaunchError, match=r"block \(2, 0, 0\), thread \(0, 0, 0\) writes y\[128\], outside of its 128"):
        launched(
            "int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = n + x[i];",
            (x, 7, y[:128].clone()),
            grid=(4,),
            parameters="const float* x, int n, float* y",
        )


def test_views_of_one_storage_stay_so():
    base = torch.zeros(12)
    launched(
        "a[0] = 1; b[0] = a[0] + 1; a[-1] = 5;", (base[4:6], base[8:]), block=(1,), parameters="float* a, float* b"
    )
    assert base.tolist() == [0, 0, 0, 5, 1, 0, 0, 0, 2, 0, 0, 0]


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")
def test_memory_that_no_one_may_write_to():
    x = torch.frombuffer(mmap.mmap(-1, 16, prot=mmap.PROT_READ), dtype=torch.float32)
    y = torch.ones(4)
    launched("y[threadIdx.x] = x[threadIdx.x];", (x, y), block=(4,), parameters="const float* x, float* y")
    assert y.tolist() == [0] * 4


def test_a_gpus_local_memory():
    """160 KB a thread."""
    x = launched(
        "float a[40000], v = x[threadIdx.x]; for (int i = 0; i < 40000; ++i) a[i] = i + v;"
        "x[threadIdx.x] = a[(int)v + 39999];"
    )
    assert x.eq(39999).all()


def test_shared_memory_is_what_the_launch_gave():
    body = "extern __shared__ float s[];\ns[threadIdx.x] = 2; __syncthreads(); x[threadIdx.x] = s[63 - threadIdx.x];"
    assert launched(body, shared_mem=256).eq(2).all()
    with pytest.raises(LaunchError, match=r"line 4 .*thread \(32, 0, 0\) writes byte 128 .*shared_mem=128 bytes"):
        launched(body, shared_mem=128)
    with order(3):
        assert launched(body, shared_mem=256).eq(2).all()
        with pytest.raises(LaunchError, match="shared_mem=0 bytes"):
            launched(body)


DIVISIONS = [
    ("int", 7, 0, -1, -1),
    ("int", -7, 0, -1, -1),
    ("int", -(2**31), -1, -(2**31), 0),
    ("unsigned", 7, 0, -1, -1),
    ("long long", 7, 0, 2**32 - 1, 2**32 - 1),
    ("long long", -7, 0, -1, -1),
    ("long long", -(2**63), -1, -(2**63), 0),
    ("unsigned long long", 2**40, 0, -1, -1),
]


@pytest.mark.parametrize("type_, a, b, quotient, remainder", DIVISIONS)
def test_integer_divisions_give_what_a_gpu_gives(device, type_, a, b, quotient, remainder):
    """What NVRTC compiles them to for sm_90: a divisor of zero makes every bit of the result 1."""
    wide = "long long" in type_
    dtype = torch.int64 if wide else torch.int32
    x, out = torch.tensor([a, b], dtype=dtype, device=device), torch.zeros(4, dtype=dtype, device=device)
    of = "unsigned" in type_ and "unsigned " or ""
    integer = "long long" if wide else "int"
    code = f"""__global__ void k(const {integer}* x, {integer}* out) {{
        {type_} a = x[0], b = x[1];
        out[0] = a / b; out[1] = a % b;
        const {of}{integer}* y = (const {of}{integer}*)x;
        out[2] = a / y[1]; out[3] = a % y[1];
    }}"""
    RawKernel(code, "k")((1,), (1,), (x, out))
    assert out.tolist() == [quotient, remainder] * 2


@pytest.fixture
def interrupts():
    """Also where a shell that began the tests in the background has them ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    "body",
    ["while (true) x[0] += 1;", "while (true) __syncthreads();", "if (blockIdx.x) while (true) { }"],
    ids=["loop", "barriers", "one of several OS threads"],
)
def test_an_interrupt_ends_an_endless_launch(body, monkeypatch, interrupts):
    monkeypatch.setenv("KERNELS_CPU_THREADS", "2")
    launched(f"if (gridDim.x < 4) return; {body}", grid=(1,))  # compiled
    stop = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    stop.start()
    with pytest.raises(KeyboardInterrupt):
        launched(f"if (gridDim.x < 4) return; {body}", grid=(4,))
    stop.join()
    assert launched("x[threadIdx.x] = 3;", grid=(4,)).eq(3).all()


def test_an_interrupt_that_is_handled_ends_the_launch_and_names_the_line():
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        launched("while (x[0] >= 0) x[0] += 1;", (torch.full((1,), -1.0),))  # compiled
        stop = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        stop.start()
        with pytest.raises(
            LaunchError, match=r"interrupted on line 3 of k.cu, in block \(0, 0, 0\), thread \(0, 0, 0\)"
        ):
            launched("while (x[0] >= 0) x[0] += 1;")
        stop.join()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_vector_that_is_not_aligned():
    with pytest.raises(
        LaunchError, match=r"a misaligned access on line 3 of k.cu: .*thread \(0, 0, 0\) accesses 16 bytes"
    ):
        launched("float4 v = *(float4*)(x + 1);\n((float4*)x)[threadIdx.x] = v;", block=(4,))
