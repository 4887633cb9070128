"""The CPU runtime as a program: threads, memory, processes, compilers, the cache."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from kernels.cuda import CompileError, LaunchError, RawKernel, gpu_compiler
from kernels.cuda.cpu import build, compiler, headers

SUM = r"""
__global__ void sum(const int* x, int* out, int n) {
    extern __shared__ int part[];
    __shared__ int warps[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    int v = part[blockDim.x - 1 - threadIdx.x];
    for (int d = 16; d; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; ++w) v += warps[w];
        out[blockIdx.x] = v;
    }
}"""


def block_sums(kernel, x, threads=128):
    out = torch.full((-(-len(x) // threads),), -1, dtype=torch.int32)
    kernel((len(out),), (threads,), (x, out, len(x)), shared_mem=4 * threads)
    padded = torch.nn.functional.pad(x, (0, len(out) * threads - len(x)))
    return out, padded.view(-1, threads).sum(1).int()


@pytest.mark.parametrize("os_threads", ["1", "2", "7"])
def test_many_blocks_on_any_number_of_os_threads(monkeypatch, os_threads):
    monkeypatch.setenv("KERNELS_CPU_THREADS", os_threads)
    x = torch.randint(-1000, 1000, (300_001,), dtype=torch.int32)
    kernel = RawKernel(SUM, "sum")
    for threads in (32, 256, 1024):
        out, expected = block_sums(kernel, x, threads)
        assert torch.equal(out, expected)


def test_a_number_of_os_threads_that_is_none(monkeypatch):
    monkeypatch.setenv("KERNELS_CPU_THREADS", "none")
    with pytest.raises(ValueError, match="KERNELS_CPU_THREADS must be a positive integer, got 'none'"):
        RawKernel("__global__ void k(int* x) {}", "k")((1,), (1,), (torch.zeros(1, dtype=torch.int32),))


def test_the_first_failing_block_is_reported(monkeypatch):
    monkeypatch.setenv("KERNELS_CPU_THREADS", "4")
    code = "__global__ void k(int* x) { if (blockIdx.x < 500 || threadIdx.x) __syncthreads(); }"
    kernel, x = RawKernel(code, "k"), torch.zeros(1, dtype=torch.int32)
    for _ in range(20):
        with pytest.raises(LaunchError, match=r"block \(500, 0, 0\)"):
            kernel((2000,), (64,), (x,))


def resident():
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_two_thousand_launches_take_no_more_memory():
    kernel, x = RawKernel(SUM, "sum"), torch.randint(-9, 9, (1024,), dtype=torch.int32)
    wrong = RawKernel("__global__ void w(int* x) { if (threadIdx.x) __syncthreads(); }", "w")

    def launches(times):
        for _ in range(times):
            out, expected = block_sums(kernel, x)
            assert torch.equal(out, expected)
            with pytest.raises(LaunchError):
                wrong((1,), (64,), (x,))

    launches(100)
    before = resident()
    launches(2000)
    assert resident() - before < 2 << 20  # 1 KiB a launch; 64 stacks of 8 KiB would be 512


def test_two_python_threads_launch_at_once(monkeypatch):
    monkeypatch.setenv("KERNELS_CPU_THREADS", "3")
    kernel, failures = RawKernel(SUM, "sum"), []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(100):
            x = torch.randint(-999, 999, (40_000,), dtype=torch.int32, generator=generator)
            out, expected = block_sums(kernel, x)
            if not torch.equal(out, expected):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_forked_child_launches(monkeypatch):
    monkeypatch.setenv("KERNELS_CPU_THREADS", "3")
    kernel, x = RawKernel(SUM, "sum"), torch.arange(200_000, dtype=torch.int32) % 100
    out = torch.zeros(200_000 // 128 + 1, dtype=torch.int32)
    arguments = (len(out),), (128,), (x, out, len(x)), 512
    kernel(*arguments)  # the parent's helpers are running
    child = os.fork()
    if child == 0:
        # Nothing of torch's that starts threads: its own pools do not survive a fork.
        first = out.tolist()
        kernel(*arguments)
        helpers = len(os.listdir("/proc/self/task")) - 1 if os.path.exists("/proc/self/task") else 2
        os._exit(0 if out.tolist() == first and helpers == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


LAUNCH = """
import torch
from kernels.cuda import RawKernel
x = torch.zeros(64, dtype=torch.int32)
code = "__global__ void k(int* x) { __shared__ int s[64]; s[threadIdx.x] = threadIdx.x; __syncthreads(); "
code += "x[threadIdx.x] = s[63 - threadIdx.x] + __shfl_sync(0xffffffff, 1, 3); }"
RawKernel(code, "k")((1,), (64,), (x,))
assert x.tolist() == list(range(64, 0, -1))
"""


def test_several_processes_fill_one_cache_at_once(monkeypatch, tmp_path):
    build.runtime_library()
    monkeypatch.setenv("KERNELS_CACHE", str(tmp_path))
    children = []
    for _ in range(4):
        children.append(os.fork())
        if children[-1] == 0:
            status = 1
            try:
                exec(LAUNCH, {})
                status = 0
            finally:
                os._exit(status)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    made = sorted(path.name.split("-")[0] for path in tmp_path.iterdir() if path.suffix != ".warnings")
    kinds = ["kernel", *([] if compiler.is_clang() else ["header"]), *["nvrtc"] * gpu_compiler.is_installed()]
    assert made == sorted(kinds)
    assert not list(tmp_path.rglob("building-*"))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["g++", "clang++", "g++ -DKERNELS_UCONTEXT"])
def test_each_compiler(command, tmp_path):
    if not shutil.which(command.split()[0]):
        pytest.skip(f"{command} is not installed")
    environment = os.environ | {"KERNELS_CACHE": str(tmp_path), "CXX": command}
    subprocess.run([sys.executable, "-c", LAUNCH], env=environment, check=True)


def test_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KERNELS_CACHE")
    assert compiler.cache_folder() == tmp_path / "kernels"


def test_missing_headers_name_their_package(monkeypatch, tmp_path):
    monkeypatch.setattr(headers, "_header_roots", lambda: [tmp_path])
    headers.cuda_headers.cache_clear()
    try:
        with pytest.raises(CompileError, match=r"cuda_fp16.h of nvidia-cuda-runtime.*pip install"):
            RawKernel("__global__ void k(float* x) {}", "k")((1,), (1,), (torch.zeros(1, dtype=torch.int32),))
    finally:
        headers.cuda_headers.cache_clear()
