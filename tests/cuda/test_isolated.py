"""kernels.cuda.isolated: a kernel that may be wrong cannot harm the process that launches it."""

import pickle

import pytest
import torch

from kernels import worker
from kernels.cuda import CompileError, LaunchError, RawKernel, RawModule, gpu_compiler, isolated, order
from kernels.cuda.cpu import build

HEAD = "__global__ void k(int* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; "


def launched(body, x, **limits):
    isolated(RawKernel(f"{HEAD}{body} }}", "k"), (1,), (64,), (x, x.numel()), **limits)


def test_what_the_kernel_writes_is_here_when_it_returns(device):
    x = torch.arange(64, dtype=torch.int32, device=device)
    launched("if (i < n) x[i] *= 3;", x)
    assert torch.equal(x.cpu(), 3 * torch.arange(64, dtype=torch.int32))


def test_every_element_of_the_storage_comes_back(device):
    """As in a launch in this process: a kernel may step from one view's part of a storage to another's."""
    base = torch.zeros(12, dtype=torch.int32, device=device)
    kernel = RawKernel("__global__ void k(int* a, const int* b) { a[0] = b[0] + 1; a[-1] = 5; }", "k")
    isolated(kernel, (1,), (1,), (base[4:6], base[8:]))
    assert base.tolist() == [0, 0, 0, 5, 1, 0, 0, 0, 0, 0, 0, 0]


def test_a_leaf_that_requires_a_gradient(device):
    x = torch.zeros(64, device=device, requires_grad=True)
    isolated(RawKernel("__global__ void k(float* x) { x[threadIdx.x] = 2; }", "k"), (1,), (64,), (x,))
    assert x.requires_grad
    assert x.sum().item() == 128


def test_a_module_from_a_file_with_options_and_templates(device, tmp_path):
    path = tmp_path / "scale.cu"
    path.write_text(
        "template <class T> __global__ void scale(T* x, T a) { extern __shared__ T s[]; s[0] = a; x[0] *= s[0] * B; }"
    )
    module = RawModule(path=path, options=("-DB=2",), name_expressions=("scale<float>",))
    kernel = module.get_function("scale<float>")
    kernel.max_dynamic_shared_size_bytes = 60_000
    x = torch.tensor([3.0], device=device)
    isolated(kernel, (1,), (1,), (x, torch.tensor(5.0).numpy()[()]), shared_mem=60_000)
    assert x.item() == 30
    path.write_text("no longer C++")
    with pytest.raises(CompileError, match=r"scale.cu"):
        isolated(RawModule(path=path).get_function("scale"), (1,), (1,), (x,))


def test_a_pickled_kernel_has_compiled_nothing():
    kernel, x = RawKernel("__global__ void k(float* x) { x[0] = 4; }", "k"), torch.zeros(1)
    kernel((1,), (1,), (x,))
    copy = pickle.loads(pickle.dumps(kernel))
    assert not copy._loaded
    y = torch.zeros(1)
    copy((1,), (1,), (y,))
    assert y.item() == 4


ENDLESS = "stopped after 2 s"
DISASTERS = {
    "an endless loop": ("for (;;) ;", worker.TimeLimit, ENDLESS, ENDLESS),
    "a spin-wait": ("volatile int* flag = x; while (*flag != 77) ;", worker.TimeLimit, ENDLESS, ENDLESS),
    "a wild pointer": ("x[(1ll << 40) + i] = 1;", LaunchError, "out of bounds on line 1", "illegal memory access"),
    "a null pointer": ("*(volatile int*)0 = 1;", LaunchError, "a null pointer on line 1", "illegal memory access"),
    "a trap": ("if (i == 3) __trap();", LaunchError, r"__trap\(\) on line 1", "failure|instruction|trap"),
}


@pytest.mark.parametrize("disaster", DISASTERS)
def test_a_disaster_is_a_clear_error_and_the_next_launch_works(disaster, compiling_device):
    body, error, on_cpu, on_gpu = DISASTERS[disaster]
    device = compiling_device
    x = torch.arange(64, dtype=torch.int32, device=device)
    y = torch.arange(64, dtype=torch.int32, device=device)
    launched("x[i] += 0;", x)
    with pytest.raises(error, match=f"^k: .*(?:{on_gpu if device == 'cuda' else on_cpu})") as caught:
        launched(f"x[i] = 100; {body}", x, seconds=2 if error is worker.TimeLimit else 20)
    assert not hasattr(caught.value, "__notes__")
    assert torch.equal(x, y)
    launched("x[i] += 1;", x)
    assert torch.equal(x, y + 1)


@pytest.mark.slow  # with time for a busy machine to come to the launch
@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("for (;;)\nx[i] += 1;", r"on line [12] of k.cu, in block \(0, 0, 0\)"),
        ("volatile int* flag = x;\nwhile (*flag != 77) ;", r"(in a loop |on line 2 of k.cu, )?in block \(0, 0, 0\)"),
    ],
)
def test_a_time_limit_names_the_place(body, place):
    kernel, x = RawKernel(f"{HEAD}{body} }}", "k"), torch.zeros(64, dtype=torch.int32)
    for lines in (False, True):  # compiled: what is measured is the launch
        kernel._module.first_that_compiles("k", lambda source: build.kernel_library(source, lines=lines))  # noqa: B023
    with pytest.raises(worker.TimeLimit, match=f"^k: stopped after 3 s.* It was {place}, thread"):
        isolated(kernel, (1,), (64,), (x, 64), seconds=3)


STACK = "volatile char a[1 << 20]; for (int j = 0; j < 1 << 20; ++j) a[j] = a[j] + i; x[i] = a[n];"
MEMORY = (
    "for (;;) { volatile char* p = (volatile char*)malloc(1 << 20); for (int j = 0; j < 1 << 20; j += 4096) p[j] = 1; }"
)
ON_A_CPU = {
    "a stack overflow": (STACK, LaunchError, "a stack overflow on line 1"),
    "endless allocation": (MEMORY, worker.MemoryLimit, "taken 256 MiB"),
}


@pytest.mark.parametrize("disaster", ON_A_CPU)
def test_a_disaster_that_a_gpu_does_not_know(disaster):
    body, error, words = ON_A_CPU[disaster]
    x = torch.arange(64, dtype=torch.int32)
    with pytest.raises(error, match=f"^k: .*{words}"):
        launched(body, x, seconds=20, memory_bytes=256 << 20)
    launched("x[i] += 1;", x)
    assert torch.equal(x, torch.arange(1, 65, dtype=torch.int32))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("abort();", r"abort\(\), which would end the whole process .* in block \(0, 0, 0\), thread"),
        ("if (i == 5) std::exit(3);", r"exit\(\), which would end .* thread \(5, 0, 0\)"),
    ],
    ids=["abort", "exit"],
)
def test_the_end_of_the_process_where_no_compiler_refuses_it(monkeypatch, body, words):
    monkeypatch.setattr(gpu_compiler, "is_installed", lambda: False)
    with pytest.raises(LaunchError, match=f"^k: .*{words}"):
        RawKernel(f"{HEAD}{body} }}", "k")((1,), (64,), (torch.arange(64, dtype=torch.int32), 64))


ALLOCATE = "for (;;) { volatile int* p = (volatile int*)malloc(1 << 20); p[0] = 1; }"
ON_A_GPU = {
    "endless allocation": (ALLOCATE, "illegal memory access"),
    "a stack overflow": ("x[i] = deep(1 << 20, x);", "illegal|launch failure|stack"),
    "a misaligned vector": ("*(volatile long long*)(x + 1) = 1;", "misaligned address"),
    "shared memory that is not there": (
        "extern __shared__ volatile int s[]; s[1 << 20] = 1;",
        "illegal|launch failure",
    ),
}
DEEP = """__device__ int deep(int n, volatile int* x) {
    volatile int a[64];
    a[n & 63] = n;
    return n ? deep(n - 1, x) + a[(n + 1) & 63] : x[0];
}
"""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: torch.cuda is not available")
@pytest.mark.parametrize("disaster", ON_A_GPU)
def test_a_disaster_on_a_gpu(disaster):
    """It costs the worker its CUDA context. Here the context lives, with what the tensors held."""
    body, words = ON_A_GPU[disaster]
    x, before = (torch.arange(64, dtype=torch.int32, device="cuda") for _ in range(2))
    with pytest.raises(LaunchError, match=f"^k: .*(?:{words})"):
        isolated(RawKernel(f"{DEEP}{HEAD}x[i] = 100; {body} }}", "k"), (1,), (64,), (x, x.numel()), seconds=60)
    assert torch.equal(x, before)
    launched("x[i] += 1;", x)
    assert torch.equal(x, before + 1)


def test_errors_of_a_launch_are_the_same_as_in_this_process(device):
    x = torch.zeros(64, dtype=torch.int32, device=device)
    with pytest.raises(CompileError, match=r"k.cu"):
        launched("x[i] = ;", x)
    with pytest.raises(ValueError, match="its x is 1,025"):
        isolated(RawKernel(f"{HEAD}}}", "k"), (1,), (1025,), (x, 64))
    with pytest.raises(TypeError, match="the kernel takes 2 arguments, got 1"):
        isolated(RawKernel(f"{HEAD}}}", "k"), (1,), (64,), (x,))
    if device == "cpu":
        with pytest.raises(LaunchError, match="63 threads wait in __syncthreads on line 1 of k.cu"):
            launched("if (i) __syncthreads();", x)
    assert x.sum() == 0


def test_the_worker_has_the_order_around_the_call():
    """Which thread comes last to a place is left to chance: in the order of the seed, here as there."""
    kernel = RawKernel("__global__ void k(int* last) { *last = threadIdx.x; }", "k")

    def last(launch, seed):
        x = torch.zeros(1, dtype=torch.int32)
        with order(seed):
            launch(kernel, x)
        return x.item()

    here = [last(lambda kernel, x: kernel((1,), (64,), (x,)), seed) for seed in range(5)]
    there = [last(lambda kernel, x: isolated(kernel, (1,), (64,), (x,)), seed) for seed in range(5)]
    assert here == there
    assert len(set(here)) > 1


def test_a_kernel_without_a_tensor():
    isolated(RawKernel("__global__ void k(int n) {}", "k"), (1,), (1,), (5,))
