"""Atomics of every kind and type, in global and shared memory, and cuda::atomic."""

import numpy as np
import pytest
import torch

from kernels.cuda import CompileError, RawKernel, RawModule

THREADS, BLOCKS = 96, 20
COUNT = THREADS * BLOCKS

# Each thread calls the atomic with a value of its own on one word, whose end does not depend on the order. What the calls
# return must be what a sequence of them returns, which `check` tells from the values, the returns and the ends.
CODE = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
template <class T, int kind> __device__ T apply(T* p, T v) {
    if constexpr (kind == 0) return atomicAdd(p, v);
    if constexpr (kind == 1) return atomicAdd_block(p, v);
    if constexpr (kind == 2) return atomicAdd_system(p, v);
    if constexpr (kind == 3) return atomicSub(p, v);
    if constexpr (kind == 4) return atomicMin(p, v);
    if constexpr (kind == 5) return atomicMax(p, v);
    if constexpr (kind == 6) return atomicAnd(p, v);
    if constexpr (kind == 7) return atomicOr(p, v);
    if constexpr (kind == 8) return atomicXor(p, v);
    if constexpr (kind == 9) return atomicExch(p, v);
    if constexpr (kind == 10) {
        T old = *p, seen;
        do { seen = old; old = atomicCAS(p, seen, T(seen + v)); } while (old != seen);
        return old;
    }
    if constexpr (kind == 11) return atomicInc(p, v);
    if constexpr (kind == 12) return atomicDec(p, v);
}
template <class T, int kind> __global__ void all(T* word, const T* values, T* returned, T* shared_end) {
    __shared__ T s;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) s = word[1];
    __syncthreads();
    if constexpr (kind != 1) returned[i] = apply<T, kind>(word, values[i]);
    apply<T, kind>(&s, values[i]);
    __syncthreads();
    if (threadIdx.x == 0) shared_end[blockIdx.x] = s;
}"""

INTEGERS = {"int": np.int32, "unsigned int": np.uint32, "long long": np.int64, "unsigned long long": np.uint64}
KINDS = ["add", "add_block", "add_system", "sub", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"]
HAS = {
    "int": KINDS[:11],
    "unsigned int": KINDS,
    "long long": ["min", "max", "and", "or", "xor"],
    "unsigned long long": ["add", "add_block", "add_system", "min", "max", "and", "or", "xor", "exch", "cas"],
    "float": ["add", "add_block", "add_system", "exch"],
    "double": ["add", "add_block", "add_system"],
    "unsigned short": ["cas"],
    "half": ["add"],
    "__nv_bfloat16": ["add"],
}
CASES = [(t, kind) for t, kinds in HAS.items() for kind in kinds]
NAMES = {(t, kind): f"all<{t}, {KINDS.index(kind)}>" for t, kind in CASES}
MODULE = RawModule(code=CODE, name_expressions=list(NAMES.values()))


@pytest.mark.parametrize("c_type, kind", CASES)
def test_every_atomic(device, c_type, kind):
    rng = np.random.default_rng(0)
    kinds = {"float": np.float32, "double": np.float64, "unsigned short": np.uint16, "half": np.float16}
    dtype = np.dtype(INTEGERS.get(c_type) or kinds.get(c_type) or np.float32)
    wide = dtype.itemsize == 8
    if dtype.kind == "f":
        # Every partial sum is exact, in whatever order: bfloat16 has 8 bits.
        most = 1 if c_type == "__nv_bfloat16" else 4
        values = rng.integers(-most, most + 1, COUNT).astype(dtype)
    elif kind in ("inc", "dec"):
        values = np.full(COUNT, 6, dtype)
    elif kind in ("add", "add_block", "add_system", "sub", "cas"):
        values = rng.integers(0, 1 << (40 if wide else 12), COUNT).astype(dtype)
    elif dtype.kind == "u":
        values = rng.integers(0, (1 << 8 * dtype.itemsize) - 1, COUNT, dtype=dtype)
    else:
        values = rng.integers(-(1 << 8 * dtype.itemsize - 1), (1 << 8 * dtype.itemsize - 1) - 1, COUNT, dtype=dtype)
    start = dtype.type(3)

    def tensor(array):
        if c_type == "__nv_bfloat16":
            return torch.from_numpy(array).bfloat16().to(device)
        return torch.from_numpy(array).to(device)

    def back(t):
        return t.float().cpu().numpy() if c_type == "__nv_bfloat16" else t.cpu().numpy()

    word = tensor(np.array([start, start], dtype))
    returned, ends = tensor(np.zeros(COUNT, dtype)), tensor(np.zeros(BLOCKS, dtype))
    MODULE.get_function(NAMES[c_type, kind])((BLOCKS,), (THREADS,), (word, tensor(values), returned, ends))
    word, returned, ends = back(word)[0], back(returned), back(ends)

    def fold(some):
        with np.errstate(over="ignore"):
            match kind:
                case "add" | "add_block" | "add_system" | "cas":
                    return dtype.type(start + some.sum(dtype=dtype))
                case "sub":
                    return dtype.type(start - some.sum(dtype=dtype))
                case "min":
                    return min(start, some.min())
                case "max":
                    return max(start, some.max())
                case "and":
                    return start & np.bitwise_and.reduce(some)
                case "or":
                    return start | np.bitwise_or.reduce(some)
                case "xor":
                    return start ^ np.bitwise_xor.reduce(some)
                case "inc":
                    return dtype.type((3 + len(some)) % 7)
                case "dec":
                    return dtype.type((3 - len(some)) % 7)

    blocks = values.reshape(BLOCKS, THREADS)
    if kind == "exch":  # each value is returned once, but for the one that stayed; the start is returned too
        assert sorted([*returned, word]) == sorted([*values, start])
        assert all(end in block for end, block in zip(ends, blocks, strict=True))
        return
    assert ends.tolist() == [fold(block) for block in blocks]
    if kind == "add_block":
        return  # on one word by several blocks it would be no atomic
    assert word == fold(values)
    if kind in ("inc", "dec"):
        assert set(returned) == set(range(7))
    elif kind in ("min", "max"):
        order = np.sort(returned) if kind == "max" else np.sort(returned)[::-1]
        assert order[0] == start and set(returned) <= {start, *values}
    elif dtype.kind != "f" and kind not in ("and", "or", "xor") and c_type != "unsigned short":
        # Sums are a chain from the start to the end: each link is returned once.
        with np.errstate(over="ignore"):
            after = returned - values if kind == "sub" else returned + values
        assert sorted([*after, start]) == sorted([*returned, word])


OTHERS = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void pairs(half2* h, __nv_bfloat162* b, float2* two, float4* four) {
    float v = float(threadIdx.x % 2);
    atomicAdd(h, __floats2half2_rn(v, -v));
    atomicAdd(b, __floats2bfloat162_rn(-v, v));
    atomicAdd(two, make_float2(v, 2 * v));
    float4 old = atomicAdd(four, make_float4(v, 2 * v, 3 * v, 4 * v));
    if (old.y != 2 * old.x) four->w = -1000;
}
__global__ void scoped(int* i, unsigned* u, unsigned long long* w, float* f) {
    __shared__ int s; __shared__ unsigned t; __shared__ unsigned long long v;
    if (threadIdx.x == 0) s = 0, t = 0, v = 0;
    __syncthreads();
    atomicSub_block(&s, 1); atomicMin_block(&s, -5); atomicMax_block(&s, -9000); atomicAnd_block(&s, -1); atomicOr_block(&s, 0);
    atomicInc_block(&t, 1000); atomicXor_block(&v, 1ull << threadIdx.x); atomicDec_block(&t, 1000); atomicAdd_block(&t, 1u);
    __syncthreads();
    atomicMin_system(i, s); atomicMax_system(u, t); atomicOr_system(w, v); atomicXor_system(w + 1, 1ull << threadIdx.x);
    atomicAnd_system(i, -1); atomicSub_system(u + 1, 1u); atomicInc_system(u + 2, 5u); atomicDec_system(u + 3, 5u);
    atomicCAS_system(u + 4, 0u, 9u); atomicCAS_block(u + 4, 9u, 9u); atomicExch_system(f, 2.5f); atomicExch_block(f, 2.5f);
    atomicAdd_system(f + 1, 0.5f);
}"""


def test_pairs_and_vectors(device):
    h, b = torch.zeros(2, dtype=torch.float16, device=device), torch.zeros(2, dtype=torch.bfloat16, device=device)
    two, four = torch.zeros(2, device=device), torch.zeros(4, device=device)
    RawKernel(OTHERS, "pairs")((2,), (64,), (h, b, two, four))
    assert h.tolist() == [64, -64] and b.tolist() == [-64, 64]
    assert two.tolist() == [64, 128] and four.tolist()[:3] == [64, 128, 192]


def test_scoped_variants(device):
    i, u = torch.zeros(1, dtype=torch.int32, device=device), torch.zeros(5, dtype=torch.int32, device=device)
    w, f = torch.zeros(2, dtype=torch.int64, device=device), torch.zeros(2, device=device)
    RawKernel(OTHERS, "scoped")((3,), (64,), (i, u, w, f))
    assert -68 <= i.item() <= -64  # as the warps' calls mix
    assert u.tolist() == [64, -192, 0, 0, 9]
    assert w.tolist() == [-1, -1] and f.tolist() == [2.5, 96.0]


LIBRARY = r"""
#include <cuda/atomic>
__global__ void library(int* total, unsigned* most, int* flag, int* out, float* sum) {
    cuda::atomic_ref<int, cuda::thread_scope_device> t(*total);
    cuda::atomic_ref<unsigned, cuda::thread_scope_system> m(*most);
    cuda::atomic_ref<float, cuda::thread_scope_device> f(*sum);
    __shared__ cuda::atomic<int, cuda::thread_scope_block> here;
    if (threadIdx.x == 0) new (&here) cuda::atomic<int, cuda::thread_scope_block>(0);
    __syncthreads();
    t.fetch_add(int(threadIdx.x), cuda::memory_order_relaxed);
    m.fetch_max(blockIdx.x * 100 + threadIdx.x);
    f.fetch_add(0.5f);
    here.fetch_or(1 << threadIdx.x % 31);
    __syncthreads();
    // The first thread waits for the last, and the blocks for the ones before them.
    cuda::atomic_ref<int, cuda::thread_scope_device> turn(*flag);
    if (threadIdx.x == 0) {
        while (turn.load(cuda::memory_order_acquire) != int(2 * blockIdx.x + 1)) ;
        out[blockIdx.x] = out[blockIdx.x ? blockIdx.x - 1 : 0] + here.load();
        turn.store(2 * blockIdx.x + 2, cuda::memory_order_release);
    } else if (threadIdx.x == blockDim.x - 1) {
        int expected = 2 * blockIdx.x;
        while (!turn.compare_exchange_strong(expected, expected + 1)) expected = 2 * blockIdx.x;
    }
    cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device);
}"""


@pytest.mark.parametrize("os_threads", ["1", "3"])
def test_cuda_atomic(device, monkeypatch, os_threads):
    monkeypatch.setenv("KERNELS_CPU_THREADS", os_threads)
    total, most, flag = torch.zeros(3, 1, dtype=torch.int32, device=device)
    out, total_f = torch.zeros(30, dtype=torch.int32, device=device), torch.zeros(1, device=device)
    RawKernel(LIBRARY, "library")((30,), (64,), (total, most, flag, out, total_f))
    assert total.item() == 30 * 63 * 32 and most.item() == 2963 and flag.item() == 60 and total_f.item() == 960
    assert out.tolist() == [(block + 1) * (2**31 - 1) % 2**32 - (2**32 if block % 2 else 0) for block in range(30)]


@pytest.mark.parametrize(
    "call", ["long long* p; atomicAdd(p, 1ll)", "short* p; atomicAdd(p, short(1))", "float* p; atomicMin(p, 1.0f)"]
)
def test_atomics_that_cuda_does_not_have_do_not_compile(compiling_device, call):
    kind = call.split("*")[0]
    code = f"__global__ void k({kind}* p) {{\n  {call.split('; ')[1]};\n}}"
    with pytest.raises(CompileError, match=r"    2 \|   atomic"):
        RawKernel(code, "k")((1,), (1,), (torch.zeros(1, device=compiling_device),))


CODES = {
    "all": (CODE, list(NAMES.values())),
    "others": (OTHERS, ["pairs", "scoped"]),
    "library": (LIBRARY, ["library"]),
}


@pytest.mark.parametrize("name", list(CODES))
def test_nvrtc(nvrtc, name):
    nvrtc(CODES[name][0], (), CODES[name][1])
