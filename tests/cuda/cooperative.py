"""What tests of cooperative groups share."""

import numpy as np
import pytest
import torch

from kernels.cuda import LaunchError, RawKernel

BEGIN = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
"""


def run(kernel, device, threads, columns, *args, grid=(1,)):
    """What each thread writes to its row of `out`, the kernel's first parameter."""
    out = torch.full((int(np.prod(grid)) * int(np.prod(threads)), columns), -77, dtype=torch.int32, device=device)
    kernel(grid, threads, (out, *args))
    return out.cpu().numpy()


def error_of(body, block=(64,), grid=(2,), **options):
    code = BEGIN.strip().replace("\n", " \n") + f"\n__global__ void k(int* x) {{\n{body}\n}}"
    with pytest.raises(LaunchError) as error:
        RawKernel(code, "k", **options)(grid, block, (torch.zeros(64, dtype=torch.int32),))
    return str(error.value)
