"""Which memory an address is in, and hints that change no result."""

import pytest
import torch

from kernels.cuda import RawKernel

pytestmark = pytest.mark.usefixtures("nvrtc_too")


def test_each_address_is_in_one_memory(device):
    code = """
    __device__ int variable;
    __device__ __noinline__ int spaces(const void* p) { return __isGlobal(p) | __isShared(p) << 1 | __isLocal(p) << 2; }
    __global__ void k(int* out) {
        extern __shared__ int dynamic[];
        __shared__ int fixed[4];
        int local[4];
        local[threadIdx.x % 4] = fixed[threadIdx.x % 4] = dynamic[threadIdx.x] = variable;
        __syncthreads();
        int* at[5] = {out + threadIdx.x, &variable, dynamic + threadIdx.x, fixed + 1, local + threadIdx.x % 4};
        for (int i = 0; i < 5; ++i) out[threadIdx.x * 5 + i] = spaces(at[i]);
    }"""
    out = torch.zeros(40, 5, dtype=torch.int32, device=device)
    RawKernel(code, "k")((1,), (40,), (out,), shared_mem=160)
    assert out.tolist() == [[1, 1, 2, 2, 4]] * 40


def test_hints_change_nothing(device):
    code = """__global__ void k(int* x, int n) {
        __builtin_assume(n > 0);
        __prof_trigger(1);
        __nanosleep(20);
        x[threadIdx.x] += n;
    }"""
    x = torch.arange(40, dtype=torch.int32, device=device)
    RawKernel(code, "k")((1,), (40,), (x, 3))
    assert torch.equal(x.cpu(), torch.arange(3, 43, dtype=torch.int32))
