"""The counters of single accesses, against what is counted by hand. Nsight Compute's are in test_hardware.py."""

import pytest
import torch
from counted import each, floats, trace

from kernels import lens
from kernels.cuda import RawKernel, RawModule
from kernels.lens.result import TOTALS


@pytest.mark.parametrize(
    ("stride", "offset", "sectors"), [(1, 0, 4), (2, 0, 8), (8, 0, 32), (32, 0, 32), (1, 1, 5), (1, 8, 4), (0, 0, 1)]
)
def test_a_copy(stride, offset, sectors):
    x, y = floats(4096), torch.zeros(128)
    found = trace("copy", (2,), (64,), (x, y, stride, offset))
    assert each(found, "x") == (4, sectors)
    assert each(found, "y", "store") == (4, 4)
    assert torch.equal(y, x[offset :: stride or 1][:128] if stride else x[:1].expand(128))
    assert found.totals == dict.fromkeys(TOTALS, 0) | {
        "global_load_requests": 4,
        "global_load_sectors": 4 * sectors,
        "global_store_requests": 4,
        "global_store_sectors": 16,
        "launches": 1,
        "bytes_requested": 2 * 4 * 128,
        "bytes_moved": 32 * (4 * sectors + 16),
    }


def test_each_request_of_an_instruction_has_its_own_addresses():
    code = """extern "C" __global__ void k(const float* x, float* y) {
        __shared__ float s[256];
        for (int i = threadIdx.x; i < 256; i += 32) s[i] = i;
        __syncthreads();
        float v = 0;
        for (int i = 0; i < 48; ++i)
            if (threadIdx.x < 32 - i / 24 * 5) v += x[threadIdx.x * (i / 2 % 3) + i] + s[threadIdx.x * (i / 2 % 5) + i];
        y[threadIdx.x] = v;
    }"""
    found = lens.trace(RawKernel(code, "k"), (1,), (32,), (floats(256), torch.zeros(32)))
    sectors = wavefronts = 0
    for i in range(48):
        lanes = range(32 - i // 24 * 5)
        sectors += len({(lane * (i // 2 % 3) + i) // 8 for lane in lanes})
        words = {lane * (i // 2 % 5) + i for lane in lanes}
        wavefronts += max(sum(word % 32 == bank for word in words) for bank in range(32))
    (read,) = [one for one in found.accesses if one.names == ("x",)]
    (shared,) = [one for one in found.accesses if one.names == ("s",) and one.kind == "load"]
    assert (read.requests, read.sectors) == (48, sectors)
    assert (shared.requests, shared.wavefronts) == (48, wavefronts)


def test_the_same_addresses_from_other_lanes():
    code = """extern "C" __global__ void k(double* y) {
        __shared__ double s[8];
        if (threadIdx.x < 8) s[threadIdx.x] = 1;
        __syncthreads();
        for (int first = 0; first < 24; first += 12)
            if (threadIdx.x >= first && threadIdx.x < first + 8) y[threadIdx.x] = s[threadIdx.x - first];
    }"""
    found = lens.trace(RawKernel(code, "k"), (1,), (32,), (torch.zeros(32, dtype=torch.float64),))
    (shared,) = [one for one in found.accesses if one.names == ("s",) and one.kind == "load"]
    # Half warps take turns: lanes 0 to 7 are of one, lanes 12 to 19 of two.
    assert (shared.requests, shared.wavefronts) == (2, 1 + 2)


def test_a_view_keeps_its_offset_from_a_sector():
    x = floats(256)
    assert each(trace("copy", (1,), (32,), (x[3:], torch.zeros(32), 1, 0)), "x") == (1, 5)
    assert each(trace("copy", (1,), (32,), (x[8:], torch.zeros(32), 1, 0)), "x") == (1, 4)


@pytest.mark.parametrize(
    ("name", "dtype", "elements", "sectors"),
    [
        ("copy4", torch.float32, 4, 16),
        ("copy_half", torch.float16, 1, 2),
        ("copy_bytes", torch.uint8, 1, 1),
        ("copy_double", torch.float64, 1, 8),
    ],
)
def test_wide_and_narrow_types(name, dtype, elements, sectors):
    x, y = floats(64 * elements).to(dtype), torch.zeros(64 * elements, dtype=dtype)
    found = trace(name, (1,), (64,), (x, y))
    assert each(found, "x") == each(found, "y", "store") == (2, sectors)
    assert {access.waste for access in found.accesses} == {1.0}
    assert torch.equal(x, y)


def test_halves():
    x, y = floats(128).half(), torch.zeros(128).half()
    found = trace("copy_pairs", (1,), (64,), (x, y))
    assert each(found, "x") == each(found, "y", "store") == (2, 4)
    assert {(one.width, one.instructions, one.waste, one.bytes) for one in found.accesses} == {(4, 1, 1.0, 256)}
    assert torch.equal(x, y)
    assert each(trace("half_as_float", (1,), (64,), (x, torch.zeros(64))), "x") == (2, 2)


def test_structures():
    x, y = floats(192), torch.zeros(192)
    found = trace("copy_points", (1,), (64,), (x, y))
    # Three words with a stride of 12 bytes, one after another: 32 of them span 12 sectors.
    assert each(found, "x") == each(found, "y", "store") == (6, 12)
    assert torch.equal(x, y)
    found = trace("first_of_points", (1,), (64,), (x, torch.zeros(64)))
    assert each(found, "x") == (2, 12)


@pytest.mark.parametrize(("columns", "wavefronts"), [(32, 32), (33, 1)])
def test_a_transpose(columns, wavefronts):
    x, y = floats(1024), torch.zeros(32, 32)
    found = trace(f"transpose<{columns}>", (1,), (32, 32), (x, y))
    assert torch.equal(y, x.view(32, 32).T)
    assert each(found, "tile") == (32, wavefronts)
    assert each(found, "tile", "store") == (32, 1)
    assert found.totals["shared_load_wavefronts"] == 32 * wavefronts
    assert found.totals["shared_store_wavefronts"] == 32
    assert found.totals["barriers"] == 1


@pytest.mark.parametrize(
    ("type", "size", "stride", "wavefronts"),
    [
        ("char", 1, 1, 1),
        ("char", 1, 4, 1),
        ("char", 1, 8, 2),
        ("float", 4, 1, 1),
        ("float", 4, 2, 2),
        ("float", 4, 3, 1),
        ("float", 4, 16, 16),
        ("float", 4, 0, 1),
        ("double", 8, 1, 2),
        ("double", 8, 2, 4),
        ("float4", 16, 1, 4),
        ("float4", 16, 2, 8),
    ],
)
def test_banks(type, size, stride, wavefronts):
    x, y = torch.arange(32 * size, dtype=torch.uint8), torch.zeros(32 * size, dtype=torch.uint8)
    found = trace(f"through_shared<{type}>", (1,), (32,), (x, y, stride), 32 * size * (stride or 1))
    assert each(found, "memory") == each(found, "memory", "store") == (1, wavefronts)
    assert stride == 0 or torch.equal(x, y)


def test_atomics():
    total, bins = torch.zeros(1), torch.zeros(256, dtype=torch.int32)
    found = trace("atomics", (1,), (32,), (total, bins))
    assert total.item() == 32 and bins[:2].tolist() == [16, 16]
    # Lanes that name the same word take turns.
    assert each(found, "sum", "atomic") == each(found, "counter", "atomic") == (1, 32)
    assert each(found, "bins", "atomic") == (1, 32)
    assert each(found, "local", "atomic") == (1, 1)
    totals = found.totals
    assert totals["global_atomic_requests"] == 3 and totals["global_atomic_sectors"] == 96
    assert totals["shared_atomic_requests"] == 1
    assert totals["shared_load_wavefronts"] == totals["shared_store_wavefronts"] == 1
    # Constant memory is no global memory.
    assert totals["global_load_requests"] == 0 and totals["global_store_requests"] == 1


def test_an_atomic_on_floats_is_no_load():
    total = torch.zeros(64)
    found = trace("many_atomics", (1,), (64,), (total, 3000))
    assert total.eq(3000).all()
    assert each(found, "sum", "atomic") == (6000, 4)
    assert found.totals["global_load_requests"] == 0


@pytest.mark.parametrize("name", ["same_name_dynamic", "same_name_static"])
def test_a_name_of_static_and_of_dynamic_shared_memory(name):
    code = """
    extern "C" __global__ void same_name_dynamic(float* x) {
        extern __shared__ float own[];
        own[threadIdx.x] = x[threadIdx.x];
        x[threadIdx.x] = own[31 - threadIdx.x];
    }
    extern "C" __global__ void same_name_static(float* x) {
        __shared__ float own[32];
        own[threadIdx.x] = x[threadIdx.x];
        x[threadIdx.x] = own[31 - threadIdx.x];
    }
    """
    found = lens.trace(RawModule(code=code).get_function(name), (1,), (32,), (floats(32),), 128)
    assert each(found, "own") == each(found, "own", "store") == (1, 1)


def test_a_loop_of_compare_and_swap():
    x = torch.zeros(1, dtype=torch.int32)
    found = trace("compare_and_swap", (1,), (32,), (x,))
    assert x.item() == 32
    assert each(found, "x") == (1, 1)
    # On the CPU the lanes run one after another, so each succeeds at once.
    assert each(found, "x", "atomic") == (1, 32)


def test_asynchronous_copies():
    x, y = floats(256), torch.zeros(64, 4)
    found = trace("asynchronous", (1,), (64,), (x, y))
    assert torch.equal(y, x.view(64, 4).flip(0))
    assert each(found, "x") == (2, 16)
    assert each(found, "tile", "store") == each(found, "tile") == (2, 4)
