"""What the tests of Triton kernels in the lens share."""

from pathlib import Path

import torch
import triton_counted as counted  # before triton: see there

from kernels import lens
from kernels.lens.triton import run
from kernels.machine import interpreting

LINES = Path(counted.__file__).read_text().splitlines()


def line_of(comment):
    (number,) = [number for number, line in enumerate(LINES, 1) if line.endswith(f"# {comment}")]
    return number


def trace(kernel, grid, args, **options):
    """In this process, where Triton is its interpreter: tests that need no isolation are quick."""
    if interpreting():
        return run.trace_here(kernel, grid, args, options)
    return lens.trace_triton(kernel, grid, args, **options)


def floats(count):
    return torch.arange(count, dtype=torch.float32)


def access(found, name, kind="load"):
    (one,) = [one for one in found.accesses if one.names == (name,) and one.kind == kind]
    return one


def numbers(one):
    return one.requests, one.lanes, one.masked, one.bytes, one.sectors, one.fewest_sectors
