"""What surrounds Hopper's instructions in attention_wgmma.cu and is no PTX: the CPU runs it."""

import re

import pytest
import torch

from kernels import machine
from kernels.cuda import RawModule
from kernels.cuda.kernel import watched
from kernels.hardware import TARGETS
from kernels.ops.attention import cuda_forward, cuda_hopper
from kernels.ops.attention.band import band, hidden

pytestmark = pytest.mark.usefixtures("nvrtc_too")

FOLDER = cuda_hopper.FILE.parent
SOURCE = """
#include "attention_walk.cuh"

extern "C" __global__ void walk(int* times, int* work, int heads, int Q, int KV, int left, int right)
{
    const Sizes n{heads, 1, Q, KV, left, right, 64};
    const int tiles = (Q + QUERIES - 1) / QUERIES;
    for (Walk walk(heads, Q, right < Q); !walk.at_end(); walk.advance()) {
        times[walk.head() * tiles + walk.tile] += 1;
        work[blockIdx.x] += Seen<128>(n, walk.tile * QUERIES).count();
    }
}

extern "C" __global__ void seen(int* ends, int Q, int KV, int left, int right)
{
    const Sizes n{1, 1, Q, KV, left, right, 64};
    const Seen<64> seen(n, blockIdx.x * QUERIES);
    ends[2 * blockIdx.x] = seen.first;
    ends[2 * blockIdx.x + 1] = seen.end;
}
"""
MODULE = RawModule(code=SOURCE, path=FOLDER / "walk.cu", name_expressions=("walk", "seen"))


def walked(device, heads, Q, KV, causal, blocks):
    times = torch.zeros(heads, -(-Q // cuda_hopper.QUERIES), dtype=torch.int32, device=device)
    work = torch.zeros(blocks, dtype=torch.int32, device=device)
    MODULE.get_function("walk")((blocks,), (1,), (times, work, heads, Q, KV, *band(causal, None, Q, KV)))
    return times, work


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("heads", "Q"), [(1, 1), (3, 128), (2, 129), (5, 640), (2, 768)])
@pytest.mark.parametrize("blocks", [1, 4, 40])
def test_every_tile_of_queries_has_its_turn_once(device, heads, Q, causal, blocks):
    times, _ = walked(device, heads, Q, Q, causal, blocks)
    assert torch.equal(times, torch.ones_like(times))


def test_causal_tiles_are_dealt_so_that_blocks_take_as_long(device):
    _, work = walked(device, 16, 1024, 1024, True, 32)
    assert work.tolist() == [2 * (1 + 8)] * 32


@pytest.mark.parametrize(("causal", "window"), [(False, None), (True, None), (True, 20), (False, 90)])
@pytest.mark.parametrize(("Q", "KV"), [(1, 1), (128, 64), (300, 300), (300, 100), (100, 300), (513, 400)])
def test_the_tiles_of_keys_are_those_that_are_seen(device, Q, KV, causal, window):
    tiles = -(-Q // cuda_hopper.QUERIES)
    ends = torch.empty(tiles, 2, dtype=torch.int32, device=device)
    MODULE.get_function("seen")((tiles,), (1,), (ends, Q, KV, *band(causal, window, Q, KV)))
    visible = ~hidden(causal, window, Q, KV, torch.device("cpu"))
    for (first, end), rows in zip(ends.tolist(), visible.split(cuda_hopper.QUERIES), strict=True):
        keys = rows.any(0).nonzero().flatten().tolist()
        assert (first, end) == (keys[0] // 64, keys[-1] // 64 + 1) if keys else first == end


def test_the_python_side_knows_the_kernel():
    text = "".join(path.read_text() for path in (cuda_hopper.FILE, FOLDER / "attention_walk.cuh"))
    said = {name: int(value) for name, value in re.findall(r"\b([A-Z]+) = (\d+)", text)}
    assert said["LINE"] == cuda_hopper.LINE and said["QUERIES"] == cuda_hopper.QUERIES
    assert (said["CONSUMERS"] + 1) * said["WARPGROUP"] == cuda_hopper.THREADS


def test_it_takes_what_tma_can_and_leaves_the_rest():
    """As on a Hopper GPU, where nothing is to run."""
    x = torch.zeros(2, 4, 40, 72, dtype=torch.bfloat16)
    odd = torch.zeros(2, 4, 40, 73, dtype=torch.bfloat16)
    tried = {
        "rows": (x, x, "sm_90"),
        "heads inside rows": (x.transpose(1, 2).contiguous().transpose(1, 2), x, "sm_90"),
        "a head for all": (x, x[:, :1], "sm_90"),
        "float32": (x.float(), x.float(), "sm_90"),
        "odd lines": (odd[..., :72], x, "sm_90"),
        "off by one": (odd.flatten()[1 : 1 + x.numel()].view(x.shape), x, "sm_90"),
        "columns": (x.mT.contiguous().mT, x, "sm_90"),
        "one head for several": (x, x[:, :1].expand(x.shape), "sm_90"),
        "no keys": (x, x[:, :, :0], "sm_90"),
        "another GPU": (x, x, "sm_100"),
    }
    found = {}
    for name, (q, k, target) in tried.items():
        launched = []
        with watched(lambda kernel, *_, to=launched: to.append(kernel.name)), machine.planning(TARGETS[target]):
            cuda_forward.wgmma(q, k, k, True, None, None)
        (found[name],) = (one.split("<")[0] for one in launched)
    taken = [name for name, kernel in found.items() if kernel == "attention_wgmma"]
    assert taken == ["rows", "heads inside rows", "a head for all"], found
