"""Programs of a Triton launch that get in each other's way: found at their lines, and nothing in those that do not."""

import re
from pathlib import Path

import pytest
import torch
import triton_raced
from triton_traced import floats, trace

TEXT = Path(triton_raced.__file__).read_text()
NAMES = re.findall(r"^def (\w+)\(x_ptr", TEXT, re.MULTILINE)
PROGRAMS, BLOCK = 4, 8


def bugs(name):
    """The lines of a kernel that are marked."""
    kernel = getattr(triton_raced, name).fn
    first, lines = kernel.__code__.co_firstlineno, TEXT.splitlines()
    end = next((n for n in range(first + 2, len(lines)) if lines[n].startswith("@")), len(lines))
    return {number for number in range(first, end + 1) if "# bug: race" in lines[number - 1]}


def traced(name, programs=PROGRAMS, dtype=torch.float32):
    x, sums = floats(PROGRAMS * BLOCK).to(dtype), torch.zeros(PROGRAMS * BLOCK, dtype=dtype)
    turns = torch.zeros(1, dtype=torch.int32)
    return trace(getattr(triton_raced, name), (programs,), (x, sums, turns), BLOCK=BLOCK)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", NAMES)
def test_races_are_found_at_their_lines(name, dtype):
    if "atomics" in name and dtype == torch.bfloat16:
        pytest.skip("Triton has no atomic addition of bfloat16")
    found = traced(name, dtype=dtype)
    assert not found.error
    assert {one.kind for one in found.findings} == ({"race"} if bugs(name) else set())
    assert {line for one in found.findings for line in one.lines} == bugs(name)


@pytest.mark.parametrize("name", NAMES)
def test_one_program_races_with_nobody(name):
    assert traced(name, programs=1).findings == ()


def test_a_race_says_who_and_where():
    read, _ = sorted(traced("one_row_for_all").findings, key=lambda one: one.lines)[-2:]
    first, second = read.lines
    assert read.address == "sums_ptr[0]" and (read.block, read.other_block) == ((1, 0, 0), (0, 0, 0))
    assert str(read) == (
        f"line {first} and line {second}: race: program (0, 0, 0) writes sums_ptr[0] on line {first} and program "
        f"(1, 0, 0) reads it on line {second}, and programs run in any order: launch twice, or use an atomic (24 times)"
    )


def test_programs_of_two_dimensions_are_told_apart():
    args = floats(PROGRAMS * BLOCK), torch.zeros(BLOCK), torch.zeros(1)
    (found,) = trace(triton_raced.another_from_each, (2, 2), args, BLOCK=BLOCK).findings
    # What they load depends on the first number alone, and two that store the same do not race.
    assert (found.block, found.other_block[0], found.count) == ((1, 0, 0), 0, BLOCK)
