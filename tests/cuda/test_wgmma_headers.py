"""What surrounds Hopper's instructions in matmul_wgmma.cu and is no PTX: the CPU runs it."""

import re

import pytest
import torch

from kernels.cuda import RawModule
from kernels.cuda.includes import DEVICE
from kernels.cuda.tensor_map import MAP_BYTES
from kernels.ops.matmul import cuda_hopper

pytestmark = pytest.mark.usefixtures("nvrtc_too")

SOURCE = """
#include "quads.cuh"
#include "tile_order.cuh"

extern "C" __global__ void quads(const int* x, int* y)
{
    unsigned values[4];
    for (int q = 0; q < 4; ++q) values[q] = x[threadIdx.x * 4 + q];
    transpose_quad(values);
    for (int q = 0; q < 4; ++q) y[threadIdx.x * 4 + q] = values[q];
}

extern "C" __global__ void order(int* times, int* at, int down, int across)
{
    const Place place = tile_at<8>(threadIdx.x, down, across);
    times[place.down * across + place.across] += 1;
    at[2 * threadIdx.x] = place.down;
    at[2 * threadIdx.x + 1] = place.across;
}
"""
MODULE = RawModule(code=SOURCE, name_expressions=("quads", "order"))


def test_quads_are_transposed(device):
    x = torch.arange(128, dtype=torch.int32, device=device)
    y = torch.empty_like(x)
    MODULE.get_function("quads")((1,), (32,), (x, y))
    assert torch.equal(y.view(8, 4, 4), x.view(8, 4, 4).mT)


@pytest.mark.parametrize(("down", "across"), [(1, 1), (8, 3), (11, 5), (3, 17)])
def test_every_tile_has_its_turn_once(device, down, across):
    times = torch.zeros(down, across, dtype=torch.int32, device=device)
    at = torch.empty(down * across, 2, dtype=torch.int32, device=device)
    MODULE.get_function("order")((1,), (down * across,), (times, at, down, across))
    assert torch.equal(times, torch.ones_like(times))
    first = at[: min(down, 8)]  # below each other
    assert first[:, 0].tolist() == list(range(len(first))) and not first[:, 1].any()


def test_the_python_side_knows_the_kernel():
    text = cuda_hopper.FILE.read_text()
    said = {name: int(value) for name, value in re.findall(r"\b([A-Z]+) = (\d+)", text)}
    assert said["DEPTH"] == cuda_hopper.DEPTH and said["LINE"] == cuda_hopper.LINE
    assert (said["CONSUMERS"] + 1) * said["WARPGROUP"] == cuda_hopper.THREADS
    words = re.search(r"TensorMap \{\s*unsigned long long opaque\[(\d+)\]", (DEVICE / "tma.cuh").read_text())
    assert int(words[1]) * 8 == MAP_BYTES


def test_it_takes_what_tma_can_and_leaves_the_rest():
    """As on a Hopper GPU, where nothing is to run."""
    from kernels import machine
    from kernels.cuda.kernel import watched
    from kernels.hardware import TARGETS

    x, w = torch.zeros(40, 72, dtype=torch.bfloat16), torch.zeros(72, 24, dtype=torch.bfloat16)
    odd = torch.zeros(40, 73, dtype=torch.bfloat16)
    tried = {
        "rows": (x, w, "sm_90"),
        "columns": (x.mT.contiguous().mT, w.mT.contiguous().mT, "sm_90"),
        "float32": (x.float(), w.float(), "sm_90"),
        "odd lines": (odd[:, :72], w, "sm_90"),
        "off by one": (odd.flatten()[1 : 1 + 40 * 72].view(40, 72), w, "sm_90"),
        "no sum": (x[:, :0], w[:0], "sm_90"),
        "a batch": (x.expand(2, 40, 72), w.expand(2, 72, 24), "sm_90"),
        "another GPU": (x, w, "sm_100"),
    }
    found = {}
    for name, (a, b, target) in tried.items():
        launched = []
        a, b = (one if one.dim() == 3 else one[None] for one in (a, b))
        y = a.new_empty(len(a), a.shape[1], b.shape[2])
        with watched(lambda kernel, *_, to=launched: to.append(kernel.name)), machine.planning(TARGETS[target]):
            cuda_hopper.multiply(lambda *_, to=launched: to.append("before"), a, b, y, None, None, "none")
        (found[name],) = (one.split("<")[0] for one in launched)
    assert [name for name, kernel in found.items() if kernel == "matmul_wgmma"] == ["rows", "columns"]
    assert {kernel for kernel in found.values()} == {"matmul_wgmma", "before"}
