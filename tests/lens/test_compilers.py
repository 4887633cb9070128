"""clang counts what g++ counts, and finds what it finds: the tests of the counters again, with clang++."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from counted import floats
from test_counts import *  # noqa: F403
from test_findings import test_a_bug_is_found_at_its_line  # noqa: F401
from test_hardware import test_the_lens_equals_hardware  # noqa: F401
from test_included_lines import *  # noqa: F403
from test_lanes import *  # noqa: F403
from test_stored_counters import test_counters_are_as_stored  # noqa: F401

from kernels import lens
from kernels.cuda import RawModule

STRUCTURES = Path(__file__).with_name("structures.cu")
MODULE = RawModule(path=STRUCTURES)
NAMES = re.findall(r"__global__ void (\w+)", STRUCTURES.read_text())

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("clang++") or not shutil.which("g++"), reason="needs g++ and clang++"),
]


@pytest.fixture(autouse=True)
def clang(monkeypatch):
    monkeypatch.setenv("CXX", "clang++")


def test_these_are_compiled_by_clang():
    from kernels.cuda.cpu import compiler

    assert compiler.is_clang()


def test_the_lens_is_compiled_by_each(monkeypatch):
    from kernels.lens.cuda import instrumented

    by_clang = instrumented.lens_library()
    monkeypatch.setenv("CXX", "g++")
    assert by_clang != instrumented.lens_library()


@pytest.mark.parametrize("name", NAMES)
def test_structures_and_branches(name, monkeypatch):
    kernel = MODULE.get_function(name)

    def counted():
        y = torch.zeros(256)
        trace = lens.trace(kernel, (1,), (32,), (floats(256), y))
        # Not the first requests: which argument of a call is read first is the compiler's to choose.
        return [replace(access, samples=()) for access in trace.accesses], y.tolist()

    by_clang = counted()
    monkeypatch.setenv("CXX", "g++")
    assert by_clang == counted()
