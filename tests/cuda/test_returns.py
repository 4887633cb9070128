"""Threads that have returned: a barrier does not wait for them, as on GPUs from sm_70 on."""

import pytest
import torch

from kernels.cuda import LaunchError, RawKernel
from kernels.cuda.cpu.returns import returns_of
from kernels.cuda.order import order
from kernels.cuda.source import Source

KERNEL = """
__device__ int shared_sum(int* s, int count)
{{
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < count; ++i) sum += s[i];
    return sum;
}}
__global__ void k(int* x, int n)
{{
    __shared__ int s[64];
    int t = threadIdx.y * blockDim.x + threadIdx.x;
    {body}
}}
"""
REST = "s[t] = t;\n    __syncthreads();\n    x[t] = s[n - 1 - t];"
TURNED = [*reversed(range(40)), *[-1] * 24]


def launch(body, n=40, block=(64,), grid=(1,)):
    x = torch.full((64,), -1, dtype=torch.int32)
    RawKernel(KERNEL.format(body=body), "k")(grid, block, (x, n))
    return x.tolist()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"if (t >= n) return;\n    {REST}", TURNED),
        (f"if (t >= n) {{ x[t] = -1; return; }}\n    {REST}", TURNED),
        (f"if (t >= n)\n    {{\n        return;\n    }}\n    else {{ }}\n    {REST}", TURNED),
        # In a function that the kernel calls.
        ("if (t >= n) return;\n    s[t] = t;\n    x[t] = shared_sum(s, n);", [780] * 40 + [-1] * 24),
        # One thread after the other, from round to round, after the barrier and before it.
        (
            "for (int i = 0; i < n; ++i) {\n        s[t] = i;\n        __syncthreads();\n        x[t] = s[n - 1];\n"
            "        __syncthreads();\n        if (t == i) return;\n    }",
            [*range(39), 39, *[39] * 24],
        ),
        # Of those that are left: how many say so, all of them, any.
        (
            "if (t >= n) return;\n    x[t] = __syncthreads_count(t % 2) + 100 * __syncthreads_and(t < n) + 1000 * "
            "__syncthreads_or(t >= n);",
            [120] * 40 + [-1] * 24,
        ),
        # Thread 0 among those that return.
        (
            "if (t < 24) return;\n    s[t] = t;\n    __syncthreads();\n    x[t] = s[87 - t];",
            [-1] * 24 + TURNED[:0] + [*range(63, 23, -1)],
        ),
    ],
)
def test_a_barrier_does_not_wait_for_threads_that_have_returned(device, body, expected):
    x = torch.full((64,), -1, dtype=torch.int32, device=device)
    kernel = RawKernel(KERNEL.format(body=body), "k")
    kernel((1,), (64,), (x, 40))
    assert x.tolist() == expected
    for seed in range(3):
        x.fill_(-1)
        with order(seed):
            kernel((1,), (16, 4), (x, 40))
        assert x.tolist() == expected


def test_threads_that_return_while_the_others_wait():
    """The barrier is let go when the last of them returns, however late."""
    body = "if (t >= n) {\n        for (volatile int i = 0; i < 1000; ++i);\n        return;\n    }\n    "
    assert launch(body + REST) == TURNED
    assert launch(f"if (t >= n) {{ __syncwarp(0xff000000u); return; }}\n    {REST}", n=56) == [
        *reversed(range(56)),
        *[-1] * 8,
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "if (t < 24)\n        __syncthreads();",
            "24 threads wait in __syncthreads on line 14 of k.cu; 40 threads have finished",
        ),
        (
            "if (t < 24) {\n        __syncthreads();\n    }\n    if (t > 0) return;\n    x[0] = 1;",
            "40 threads have finished",
        ),
        (
            "if (t >= 60) return;  // }\n    if (t < 24)\n        __syncthreads();\n    x[t] = 1;",
            "24 threads wait in __syncthreads on line 15 of k.cu; 40 threads have finished",
        ),
        (
            "if (t >= n) return;\n    if (t < 8)\n        __syncthreads();\n    else __syncthreads_or(1);",
            "24 threads have finished",
        ),
        (
            "if (t >= n) return;\n    if (t == 3) { while (((volatile int*)x)[0] < 5) { } }\n    __syncthreads();",
            "without end",
        ),
    ],
)
def test_a_barrier_that_threads_pass_by_is_an_error(monkeypatch, body, words):
    monkeypatch.setenv("KERNELS_CPU_PATIENCE", "1")
    with pytest.raises(LaunchError, match=words):
        launch(body)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("__global__ void k() {\n  if (a) return;\n  b();\n}", ("k.cu", 1, 4, 2)),
        ("__global__ void k() {\n  b();\n}\n__global__ void j() { return; }", ("k.cu", 1, 3, 0)),
        (
            "__global__ void k();\n// return;\n__global__ void __launch_bounds__(3) k(int a)\n{\n  return;\n}",
            ("k.cu", 4, 6, 5),
        ),
        (
            "template <class T> __global__ void k() {\n  while (a) {\n    b();\n    if (c) return;\n  }\n}",
            ("k.cu", 1, 6, 2),
        ),
        ("__global__ void k() {\n  for (;;) b();\n  do {\n    return;\n  } while (a);\n}", ("k.cu", 1, 6, 3)),
        (
            '__device__ int b;\n#line 1 "h.cuh"\n__global__ void k() {\n  return;\n}\n#line 3 "k.cu"\n',
            ("h.cuh", 1, 3, 2),
        ),
        ("__global__ void k() {\n  auto f = [](int i) { return i; };\n}", ("k.cu", 1, 3, 0)),
        ("#define K __global__ void k() { return; }\nK", ("k.cu", 1, 1, 1)),
        ("DEFINE(k)", ("k.cu", 1, 1, 0)),
    ],
)
def test_where_a_kernel_returns(code, expected):
    assert returns_of(Source(code, "k.cu", (), ("k<int>",)), "k<int>") == expected
