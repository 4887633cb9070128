"""Random kernels without a fault: stages put one after another, each of them correct whatever comes before and after."""

from __future__ import annotations

import random
import textwrap
from typing import NamedTuple

import torch
from random_stages import LOADS, STAGES
from random_stores import STORES

HEAD = """
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;
"""


class RandomKernel(NamedTuple):
    """A kernel's source and launch. All have the same parameters."""

    name: str
    text: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    count: int  # of elements in x and y
    shared_mem: int

    def arguments(self) -> tuple:
        x = torch.rand(self.count, generator=torch.Generator().manual_seed(0))
        blocks = self.grid[0]
        threads = blocks * self.block[0] * (self.block[1] if len(self.block) > 1 else 1)
        integers = torch.zeros(256, dtype=torch.int32)
        return x, torch.zeros(self.count), torch.zeros(threads), torch.zeros(256), integers, self.count


PARAMETERS = "const float* x, float* y, float* scratch, float* sums, unsigned* counts, int n"
OPENING = """\
    const int T = blockDim.x * blockDim.y, tid = threadIdx.y * blockDim.x + threadIdx.x;
    const int i = blockIdx.x * T + tid, lane = tid % 32, warp = tid / 32;
    float v = 0;
"""


def random_kernel(seed: int) -> RandomKernel:
    """The kernel of that number."""
    draw = random.Random(seed)
    block = draw.choice([(32,), (64,), (96,), (128,), (160,), (256,), (16, 4), (8, 16), (32, 4)])
    threads = block[0] * (block[1] if len(block) > 1 else 1)
    grid = draw.choice([1, 2, 3, 4, 7])
    count = max(1, grid * threads - draw.choice([0, 0, 1, 5, 33, threads // 2]))

    def written(template: str, number: int) -> str:
        values = dict(
            u=number,
            threads=threads,
            a=draw.randint(1, 5),
            r=draw.randint(1, 70),
            bins=draw.choice([5, 16, 100]),
        )
        values["tile"] = draw.choice([4, 8, 16, 32])
        values["tile_bit"] = values["tile"] // 2
        return textwrap.indent(textwrap.dedent(template).strip().format(**values), "    ")

    body = [written(draw.choice(LOADS), 0)]
    stages = draw.sample(STAGES, draw.randint(2, 5))
    body += [written(stage, number) for number, stage in enumerate(stages, 1)]
    # A store that shows scratch to other blocks wants it for itself.
    store = draw.choice(STORES)
    if "scratch" in store:
        body = [text for text in body if "scratch" not in text]
    body.append(written(store, len(stages) + 1))
    dynamic = "    extern __shared__ float dynamic[];\n"
    name = f"random_{seed}"
    text = f'extern "C" __global__ void {name}({PARAMETERS}) {{\n{dynamic}{OPENING}' + "\n".join(body) + "\n}\n"
    return RandomKernel(name, text, (grid,), block, count, threads * 4)
