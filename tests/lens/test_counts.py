"""The counters, against what is counted by hand. Nsight Compute's are in test_hardware.py."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from kernels import lens
from kernels.cuda import RawModule
from kernels.lens.result import TOTALS

MODULE = RawModule(
    path=Path(__file__).parent / "counted.cu",
    name_expressions=(
        "transpose<32>",
        "transpose<33>",
        "through_shared<char>",
        "through_shared<float>",
        "through_shared<double>",
        "through_shared<float4>",
    ),
)


def trace(name, grid, block, args, shared_mem=0, **options):
    return lens.trace(MODULE.get_function(name), grid, block, args, shared_mem, **options)


def floats(count):
    return torch.arange(count, dtype=torch.float32)


def each(found, name, kind="load"):
    """Requests and sectors or wavefronts of a request of the one access of that kind to that array."""
    (access,) = [one for one in found.accesses if one.names == (name,) and one.kind == kind]
    return access.requests, access.units / access.requests


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


def test_partial_warps():
    x, y = floats(256), torch.zeros(256)
    found = trace("guarded", (2,), (40,), (x, y, 77))
    (load,) = [one for one in found.accesses if one.kind == "load"]
    # Warps of 32, 8, 32 and 5 lanes, the third of which begins at float 40, on a sector.
    assert (load.requests, load.lanes, load.sectors, load.bytes) == (4, 77, 4 + 1 + 4 + 1, 4 * 77)
    assert torch.equal(y[:77], x[:77]) and not y[77:].any()
    assert trace("guarded", (1,), (32,), (x, y, 0)).totals["global_load_requests"] == 0


def test_a_warp_is_rows_of_a_2d_block():
    found = trace("in_2d", (1,), (8, 8), (floats(8 * 100), torch.zeros(800), 100))
    # Two warps of four rows of 8 floats; rows begin 100 floats apart, every other one in the middle of a sector.
    assert each(found, "x") == each(found, "y", "store") == (2, 6)


def test_lanes_with_trip_counts_of_their_own():
    found = trace("trip_counts", (1,), (32,), (floats(1024), torch.zeros(32)))
    (load,) = [one for one in found.accesses if one.kind == "load"]
    # Iteration k is of lanes k+1 to 31.
    assert (load.requests, load.lanes) == (31, sum(range(32)))
    assert load.sectors == sum(4 - (k + 1) // 8 for k in range(31))
    assert each(found, "y", "store") == (1, 4)


def test_conditions_are_not_merged_across_iterations():
    found = trace("alternating", (1,), (32,), (floats(128), torch.zeros(32)))
    (load,) = [one for one in found.accesses if one.kind == "load"]
    assert (load.requests, load.lanes, load.sectors) == (4, 64, 16)


def test_both_branches_then_together_again():
    found = trace("branches", (1,), (32,), (floats(64), torch.zeros(32)))
    assert [(one.requests, one.lanes) for one in found.accesses if one.kind == "load"] == [(1, 16), (1, 16)]
    assert each(found, "y", "store") == (1, 4)
    assert found.simt_efficiency < 1


def test_returns_and_continues_in_a_loop():
    x, y = floats(1024), torch.zeros(32)
    found = trace("early_exits", (1,), (32,), (x, y))
    assert torch.equal(y, x[::32])
    by_line = {one.line: one for one in found.accesses if one.kind == "load"}
    returned, tested = (by_line[line] for line in sorted(by_line))
    assert (returned.requests, returned.lanes) == (32, 32)
    assert (tested.requests, tested.lanes) == (16, sum(31 - k for k in range(0, 32, 2)))
    assert each(found, "y", "store") == (1, 4)


def test_lanes_wait_at_a_barrier_for_those_further_down():
    x, y = floats(64), torch.zeros(32)
    found = trace("detour", (1,), (32,), (x, y))
    assert torch.equal(y, x[:32] + x[32:] * (floats(32) % 2))
    assert each(found, "y", "store") == (1, 4)


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


def test_collectives_are_no_accesses():
    x, y = floats(32), torch.zeros(1)
    found = trace("shuffled", (1,), (32,), (x, y))
    assert y.item() == x.sum()
    assert each(found, "x") == (1, 4) and each(found, "y", "store") == (1, 1)
    assert len(found.accesses) == 2


@pytest.mark.parametrize("columns", [100, 20_000])
def test_streams_longer_than_are_kept(columns):
    x, y = torch.ones(64, columns), torch.zeros(64)
    found = trace("long_rows", (1,), (64,), (x, y, columns))
    assert y.eq(columns).all()
    assert each(found, "x") == (2 * columns, 32)
    assert each(found, "y", "store") == (2, 4)


def test_long_streams_between_barriers():
    x, y = torch.ones(64, 10_000), torch.zeros(64)
    found = trace("long_rows_with_barriers", (1,), (64,), (x, y, 10_000))
    assert y.eq(10_000).all()
    assert each(found, "x") == (20_000, 32)
    assert each(found, "last", "store") == (10, 1)
    assert found.totals["barriers"] == 20


def test_asynchronous_copies():
    x, y = floats(256), torch.zeros(64, 4)
    found = trace("asynchronous", (1,), (64,), (x, y))
    assert torch.equal(y, x.view(64, 4).flip(0))
    assert each(found, "x") == (2, 16)
    assert each(found, "tile", "store") == each(found, "tile") == (2, 4)


def test_blocks_that_wait_for_each_other():
    module = RawModule(path=Path(__file__).parent / "counted.cu", enable_cooperative_groups=True)
    x, y = torch.zeros(256), torch.zeros(256)
    kernel = module.get_function("grid_wide")
    found = lens.trace(kernel, (4,), (64,), (x, y))
    assert torch.equal(y, floats(256).flip(0))
    assert found.totals["global_store_requests"] == 16 and found.totals["global_load_requests"] == 8
    assert found.totals["barriers"] == 4
    with pytest.raises(ValueError, match="blocks: a cooperative launch cannot be sampled"):
        lens.trace(kernel, (4,), (64,), (x, y), blocks=2)


SEEDED = [
    ("transpose<33>", (1,), (32, 32), lambda: (floats(1024), torch.zeros(1024))),
    ("early_exits", (1,), (32,), lambda: (floats(1024), torch.zeros(32))),
    ("atomics", (2,), (32,), lambda: (torch.zeros(1), torch.zeros(256, dtype=torch.int32))),
    ("shuffled", (1,), (32,), lambda: (floats(32), torch.zeros(1))),
    ("long_rows", (2,), (64,), lambda: (torch.ones(128, 5000), torch.zeros(128), 5000)),
    ("copy", (3,), (40,), lambda: (floats(4096), torch.zeros(128), np.int32(3), 1)),
]


@pytest.mark.parametrize(("name", "grid", "block", "args"), SEEDED, ids=[case[0] for case in SEEDED])
def test_the_order_of_threads_changes_no_counter(name, grid, block, args):
    plain = trace(name, grid, block, args())
    for seed in (1, 2):
        assert trace(name, grid, block, args(), seed=seed).accesses == plain.accesses


# Where both arms of an if load, clang makes one load of a chosen pointer of them, as NVIDIA's assembler may.
COMPARED = [
    *(case for case in SEEDED if case[0] != "early_exits"),
    ("copy4", (1,), (64,), lambda: (floats(256), torch.zeros(256))),
    ("copy_half", (1,), (64,), lambda: (floats(64).half(), torch.zeros(64).half())),
    ("copy_points", (1,), (64,), lambda: (floats(192), torch.zeros(192))),
    ("trip_counts", (1,), (32,), lambda: (floats(1024), torch.zeros(32))),
    ("alternating", (1,), (32,), lambda: (floats(128), torch.zeros(32))),
    ("asynchronous", (1,), (64,), lambda: (floats(256), torch.zeros(256))),
]


@pytest.mark.skipif(not shutil.which("clang++") or not shutil.which("g++"), reason="needs g++ and clang++")
@pytest.mark.parametrize(("name", "grid", "block", "args"), COMPARED, ids=[case[0] for case in COMPARED])
def test_compilers_agree(name, grid, block, args, monkeypatch):
    monkeypatch.setenv("CXX", "g++")
    gcc = trace(name, grid, block, args()).totals
    monkeypatch.setenv("CXX", "clang++")
    assert trace(name, grid, block, args()).totals == gcc
