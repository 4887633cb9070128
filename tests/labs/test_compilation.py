"""What Triton's interpreter runs and no GPU does is reported before it gets to a GPU; what its compiler takes passes."""

import pytest
import torch
from test_cheats import TRITON, exercise_in
from test_labs import solution

from kernels.grading.judging import judge
from kernels.grading.labs import exercise


@pytest.mark.parametrize("factor", ["TWO * tl.load", "(TWO + doubled_by()) / TWO * tl.load"])
def test_a_constant_and_a_function_outside_of_a_triton_kernel_pass(factor):
    outside = "TWO = tl.constexpr(2.0)\nother = 3\n@triton.jit\ndef doubled_by(): return TWO\n"
    report = judge.grade(exercise_in("triton"), outside + TRITON.replace("2 * tl.load", factor))
    assert report.passed, report


OUTSIDE = """import math
TWO = 2.0
ANNOTATED: tl.constexpr = 2.0
@triton.jit
def returns_dict():
    numbers = {0: 2}
    return numbers[0]
"""
COMPILES_NOWHERE = {
    "a dict": ("2 * tl.load", "{0: 2}[0] * tl.load", "unsupported AST node type: Dict", "13 |     tl.store(y + i, {0"),
    "a dict in a function": ("2 * tl.load", "returns_dict() * tl.load", "unsupported AST", "7 |     numbers = {0: 2}"),
    "a variable outside": (
        "2 * tl.load",
        "TWO * tl.load",
        "Cannot access global variable TWO from",
        "13 |     tl.store(",
    ),
    "an annotated variable": (
        "2 * tl.load",
        "ANNOTATED * tl.load",
        "Cannot access global variable ANNO",
        "13 |     tl.",
    ),
    "a block printed without a word": (
        "    tl.store",
        "    print(i)\n    tl.store",
        'print takes a word, and then numbers and blocks: print("u", u)',
        "13 |     print(i)",
    ),
    "what changes its type in a loop": (
        "    tl.store",
        "    two = 2\n    for j in range(N):\n        two = two * 1.0\n    y += two.to(tl.int32) - 2\n    tl.store",
        "Loop-carried variable two has initial type int32",
        "14 |     for j in range(N):",
    ),
}


_SLOW = ("a dict", "a variable outside")


@pytest.mark.parametrize(
    ("search", "replace", "said", "line"),
    [pytest.param(*row, id=name, marks=[pytest.mark.slow] * (name in _SLOW)) for name, row in COMPILES_NOWHERE.items()],
)
def test_what_the_interpreter_runs_and_no_gpu_is_told_with_its_line(search, replace, said, line):
    report = judge.grade(exercise_in("triton"), OUTSIDE + TRITON.replace(search, replace, 1))
    assert report.broken == ("it compiles for a GPU",), report
    message = report.verdicts[1].message
    assert "Triton's compiler refuses it: " in message, message
    assert said in message, message
    assert f"    {line}" in message, message


def test_two_types_that_meet_on_a_gpu_alone_are_told_as_such():
    """In the interpreter a number is Python's, and a block of halves times it is one of halves."""
    text, load = solution("attention", "flash_attention"), "q = tl.load(q_tile, rows < M, 0.0)"
    assert text.count(load) == text.count(") * scale") == 1
    report = judge.grade(exercise("flash_attention"), text.replace(") * scale", ")").replace(load, f"{load} * scale"))
    assert report.broken == ("it compiles for a GPU",), report
    message = report.verdicts[2].message
    assert "Both operands must be same dtype. Got fp32 and fp16" in message
    assert "tl.dot takes two blocks of one type" in message
    assert "The rest of Python" not in message


def test_a_branch_that_only_a_later_size_takes_is_compiled():
    text = TRITON.replace("BLOCK: tl.constexpr", "BLOCK: tl.constexpr, SMALL: tl.constexpr")
    text = text.replace("BLOCK=64", "BLOCK=64, SMALL=x.numel() < 64")
    text = text.replace("    tl.store", "    two = 2\n    if SMALL:\n        two = {0: 2}[0]\n    tl.store").replace(
        "2 *", "two *"
    )
    report = judge.grade(exercise_in("triton"), text)
    assert report.broken == ("it compiles for a GPU",), report
    assert "    8 |         two = {0: 2}[0]" in report.verdicts[1].message, report


@pytest.mark.skipif(torch.cuda.is_available(), reason="is launched on the GPU")
def test_a_kernel_that_is_launched_in_the_interpreter_alone_is_told():
    text = TRITON.replace("    kernel[", "    if type(kernel).__name__ != 'InterpretedFunction': return y\n    kernel[")
    report = judge.grade(exercise_in("triton"), text)
    assert report.broken == ("it compiles for a GPU",), report
    assert "kernel was not launched when it should have been compiled" in report.verdicts[1].message
