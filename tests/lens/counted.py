"""What tests of the counters share: the kernels of counted.cu, traced."""

from pathlib import Path

import torch

from kernels import lens
from kernels.cuda import RawModule

FILE = Path(__file__).with_name("counted.cu")
MODULE = RawModule(
    path=FILE,
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
