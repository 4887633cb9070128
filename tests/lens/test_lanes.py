"""Which lanes make a request together: warps, branches, loops, barriers; in any order."""

import numpy as np
import pytest
import torch
from counted import FILE, each, floats, trace

from kernels import lens
from kernels.cuda import RawModule


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


def test_blocks_that_wait_for_each_other():
    module = RawModule(path=FILE, enable_cooperative_groups=True)
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
