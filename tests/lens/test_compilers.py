"""clang counts what g++ counts, and finds what it finds: the tests of the counters again, with clang++."""

import shutil

import pytest
from test_counts import *  # noqa: F403
from test_findings import test_a_bug_is_found_at_its_line  # noqa: F401
from test_hardware import test_the_lens_equals_hardware  # noqa: F401
from test_lanes import *  # noqa: F403

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("clang++") or not shutil.which("g++"), reason="needs g++ and clang++"),
]

ARMS = "clang makes one load of a chosen pointer of those in both arms of an if, as NVIDIA's assembler may"
KNOWN = {
    "test_both_branches_then_together_again": ARMS,
    "test_returns_and_continues_in_a_loop": ARMS,
    "test_a_bug_is_found_at_its_line[alignment-padded_rows]": "clang knows that the array is of floats, and reads two",
}


@pytest.fixture(autouse=True)
def clang(monkeypatch, request):
    monkeypatch.setenv("CXX", "clang++")
    if reason := KNOWN.get(request.node.name):
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))


def test_these_are_compiled_by_clang():
    from kernels.cuda.cpu import build

    assert build.is_clang()
