"""Threads and blocks that wait for memory to change, and waits that never end."""

import re
import time

import pytest
import torch

from kernels.cuda import LaunchError, RawKernel

# A text that reads volatile memory is compiled with a call on every branch; the others wait in atomics alone.
ATOMIC_WAITS = r"""
__global__ void atomic_flag(int* flag, int* out) {
    if (threadIdx.x == 0) { while (atomicAdd(flag, 0) == 0) ; __threadfence(); out[0] = atomicAdd(&out[1], 0) + 1; }
    else if (threadIdx.x == 40) { out[1] = 41; __threadfence(); atomicExch(flag, 1); }
}
__global__ void sleeping(int* flag, int* out) {
    if (threadIdx.x == 0) { while (atomicCAS(flag, 1, 2) != 1) __nanosleep(100); __threadfence_block(); out[0] = 42; }
    else if (threadIdx.x == 40) { __threadfence_system(); atomicExch_system(flag, 1); }
}"""
WAITS = r"""
__global__ void volatile_flag(int* flag, int* out) {
    if (threadIdx.x == 0) { while (*(volatile int*)flag == 0) ; __threadfence(); out[0] = *(volatile int*)&out[1] + 1; }
    else if (threadIdx.x == 40) { *(volatile int*)&out[1] = 41; __threadfence(); *(volatile int*)flag = 1; }
}
// Locks and unlocks among the threads of many blocks.
__global__ void locked(int* lock, int* out) {
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(lock, 0, 1) != 0) ;
        __threadfence();
        *(volatile int*)out = *(volatile int*)out + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}
// Each block adds to what the block before it has left: blocks start in order, so none waits for one that cannot start.
__global__ void chained(int* left, int* out) {
    if (threadIdx.x == 0) {
        while (atomicAdd(left, 0) != int(blockIdx.x)) ;
        __threadfence();
        out[0] = *(volatile int*)out * 3 % 10007 + int(blockIdx.x);
        __threadfence();
        atomicAdd(left, 1);
    }
}"""


@pytest.mark.parametrize(
    "code, name", [(WAITS, "volatile_flag"), (ATOMIC_WAITS, "atomic_flag"), (ATOMIC_WAITS, "sleeping")]
)
def test_a_thread_waits_for_another_of_its_block(device, code, name):
    flag, out = torch.zeros(1, dtype=torch.int32, device=device), torch.zeros(2, dtype=torch.int32, device=device)
    RawKernel(code, name)((1,), (64,), (flag, out))
    assert out[0].item() == 42


@pytest.mark.parametrize("os_threads", ["1", "2", "5"])
def test_blocks_wait_for_each_other(device, monkeypatch, os_threads):
    monkeypatch.setenv("KERNELS_CPU_THREADS", os_threads)
    lock, out = torch.zeros(2, 1, dtype=torch.int32, device=device)
    RawKernel(WAITS, "locked")((60,), (128,), (lock, out))
    assert (lock.item(), out.item()) == (0, 240)
    left, out = torch.zeros(2, 1, dtype=torch.int32, device=device)
    RawKernel(WAITS, "chained")((100,), (64,), (left, out))
    expected = 0
    for block in range(100):
        expected = expected * 3 % 10007 + block
    assert (left.item(), out.item()) == (100, expected)


def test_the_last_block_sums_what_the_others_left(device):
    code = r"""
    __device__ unsigned arrived;
    __global__ void total(const float* x, float* part, float* out, int n) {
        __shared__ float s[128]; __shared__ bool last;
        float sum = 0;
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
        for (int round = 0; round < 2; ++round) {
            s[threadIdx.x] = sum;
            __syncthreads();
            for (int half = 64; half; half /= 2) {
                if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
                __syncthreads();
            }
            if (round) break;
            if (threadIdx.x == 0) {
                part[blockIdx.x] = s[0];
                __threadfence();
                last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
            }
            __syncthreads();
            if (!last) return;
            sum = threadIdx.x < gridDim.x ? ((volatile float*)part)[threadIdx.x] : 0.0f;
        }
        if (threadIdx.x == 0) *out = s[0];
    }"""
    kernel, x = RawKernel(code, "total"), torch.randint(-9, 9, (50_000,), device=device).float()
    for blocks in (1, 77, 128, 77):  # the counter is back at 0 after each
        part, out = torch.empty(128, device=device), torch.empty(1, device=device)
        kernel((blocks,), (128,), (x, part, out, len(x)))
        assert out.item() == x.sum().item()


@pytest.mark.parametrize("code, name", [(WAITS, "chained"), (ATOMIC_WAITS, "sleeping")], ids=["waits", "atomic_waits"])
def test_nvrtc(nvrtc, code, name):
    nvrtc(code, (), [name])


def error_of(body, block=(64,), grid=(2,), before="", **options):
    kernel = RawKernel(f"__global__ void k(int* x) {{\n{body}\n}}\n{before}", "k", **options)
    with pytest.raises(LaunchError) as error:
        kernel(grid, block, (torch.zeros(4096, dtype=torch.int32),))
    return str(error.value)


@pytest.mark.parametrize(
    "body, words",
    [
        (
            "while (atomicAdd(x, 0) == 0) ;",
            "64 threads read memory that stays as it is, in atomicAdd on line 2 of k.cu",
        ),
        ("if (threadIdx.x == 3) while (atomicCAS(x, 1, 2) != 1) ;\n__syncthreads();", "1 thread reads .* on line 2 .*"),
        ("while (*(volatile int*)x == 0) ;", "64 threads read memory that stays as it is, in a loop"),
        ("while (1) __nanosleep(10);", "in __nanosleep on line 2"),
        ("if (blockIdx.x == 0) { x[1] = 1; return; }\nwhile (atomicAdd(x, 0) == 0) ;", r"block \(1, 0, 0\)"),
    ],
)
@pytest.mark.parametrize("os_threads", ["1", "3"])
def test_a_wait_without_end_ends(monkeypatch, body, words, os_threads):
    monkeypatch.setenv("KERNELS_CPU_PATIENCE", "0.3")
    monkeypatch.setenv("KERNELS_CPU_THREADS", os_threads)
    start = time.monotonic()
    message = error_of(body)
    assert time.monotonic() - start < 60
    assert "a wait without end, in block" in message
    assert re.search(words, message), message


def test_waiting_for_a_long_computation_is_no_wait_without_end(monkeypatch):
    monkeypatch.setenv("KERNELS_CPU_PATIENCE", "0.05")
    monkeypatch.setenv("KERNELS_CPU_THREADS", "2")
    code = r"""__global__ void k(int* x, int n) {
        if (blockIdx.x == 0) {
            unsigned v = 1;
            for (int i = 0; i < n; ++i) v = v * 1664525u + 1013904223u;
            x[1] = int(v);
            atomicExch(x, 1);
        } else {
            while (atomicAdd(x, 0) == 0) ;
            x[2] = 5;
        }
    }"""
    x = torch.zeros(3, dtype=torch.int32)
    RawKernel(code, "k")((2,), (1,), (x, 500_000_000))
    assert x[0] == 1 and x[2] == 5


def test_a_patience_that_is_none(monkeypatch):
    monkeypatch.setenv("KERNELS_CPU_PATIENCE", "long")
    with pytest.raises(ValueError, match="KERNELS_CPU_PATIENCE must be a number of seconds, got 'long'"):
        RawKernel(WAITS, "chained")((1,), (1,), (torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)))
