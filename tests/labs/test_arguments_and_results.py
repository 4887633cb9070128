"""What a submission is given is its own and is undefined where no one wrote it; what it leaves and returns is looked at."""

import re
from dataclasses import replace

import pytest
import torch
from test_cheats import SOLUTION, TRITON, exercise_in

from kernels.grading import properties
from kernels.grading.exercise import Call
from kernels.grading.judging import judge
from kernels.grading.labs import exercise


def test_an_input_that_is_destroyed_after_use_is_seen():
    report = judge.grade(exercise_in("torch"), "def doubled(x):\n    y = 2 * x\n    x[3:5] = 0\n    return y")
    assert report.broken == ("y is 2 x",)
    assert "2 of 100 elements of x, all in x[3:5], are not what was given" in report.verdicts[-1].message
    assert judge.grade(exercise_in("torch"), "def doubled(x):\n    return x.clone().mul_(2)").passed
    for other in ("x.set_()", "x.data = torch.zeros(3)"):  # another tensor by this name, which is no matter
        assert judge.grade(exercise_in("torch"), f"def doubled(x):\n    y = 2 * x\n    {other}\n    return y").passed
    spoiled = TRITON.replace("mask=i < N)\n\n", "mask=i < N)\n    tl.store(x + i, 0.0, mask=i < N)\n\n", 1)
    assert spoiled != TRITON
    report = judge.grade(exercise_in("triton"), spoiled)
    assert report.broken == ("y is 2 x",)
    assert "every element of x is not what was given" in report.verdicts[-1].message
    spoiled = SOLUTION.replace("* D + d];", "* D + d];\n    ((float*)x)[((b * S + s) * H + h) * D + d] = 0;")
    report = judge.grade(exercise("permuted_copy"), spoiled)
    number = spoiled[: spoiled.index("((float")].count("\n") + 2
    assert report.broken[0] == "y[b, h, s, d] is x[b, s, h, d]"
    # Some cases have zeros in x, which stay what they are.
    elements = r"(every element of x is|[\d,]+ of 4,096 elements of x are) not"
    assert re.search(f"line {number} writes x, which should only be read: {elements}", report.verdicts[4].message)


def test_the_first_element_beyond_an_input_is_outside_of_it_although_another_begins_there():
    def call(random: torch.Generator, N: int) -> Call:
        x, other = torch.randn(2, N, generator=random)
        return Call({"x": x, "other": other}, expected={"y": x.double()}, baseline={"y": x})

    inside = replace(exercise_in("triton"), call=call, properties=(properties.stays_inside(),))
    text = TRITON.replace("doubled(x)", "doubled(x, other)")
    assert judge.grade(inside, text).passed
    report = judge.grade(inside, text.replace("mask=i < N), mask", "mask=i <= N), mask"))
    assert "x[33], just beyond its end" in report.verdicts[0].message or "x[100]" in report.verdicts[0].message, report


def test_in_a_large_case_elements_lie_as_far_apart_as_their_strides_say():
    def call(random: torch.Generator, N: int, far: bool) -> Call:
        x = torch.randn(3, N, generator=random)
        strides = {"x": (1 << 30, 1)} if far else {}
        return Call({"x": x}, expected={"y": 2 * x.double()}, baseline={"y": 2 * x}, strides=strides)

    cases = {"near": {"N": 9, "far": False}, "far": {"N": 9, "far": True}}
    far = replace(exercise_in("triton"), call=call, cases=cases, unwatched=("far",))
    text = """
@triton.jit
def kernel(y, x, row, N):
    i = tl.arange(0, 16)
    x += tl.program_id(0) * row
    tl.store(y + tl.program_id(0) * N + i, 2 * tl.load(x + i, mask=i < N), mask=i < N)


def doubled(x):
    y = x.new_empty(x.shape)
    kernel[(3,)](y, x, x.stride(0), 9)
    return y
"""
    report = judge.grade(far, text)
    assert report.broken == ("y is 2 x",), report
    assert "all in y[2, :], are wrong" in report.verdicts[-1].message
    assert "far = True" in report.verdicts[-1].message
    assert judge.grade(far, text.replace("tl.program_id(0) * row", "tl.program_id(0).to(tl.int64) * row")).passed


SUM = """
@triton.jit
def kernel(y, x, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    values = tl.load(x + i, mask=i < N, other=0)
    tl.store(y + i, values + tl.sum(values), mask=i < N)


def doubled(x):
    y = torch.empty_like(x)
    kernel[(1,)](y, x, x.numel(), BLOCK=128)
    return y
"""


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint8"])
def test_a_masked_lane_that_is_given_no_value_holds_no_zero(dtype):
    def call(random: torch.Generator, N: int) -> Call:
        x = torch.randint(0, 3, (N,), generator=random).to(getattr(torch, dtype))
        return Call({"x": x}, expected={"y": x + x.sum().to(x.dtype)})

    summed = replace(exercise_in("triton"), call=call, properties=(properties.right(name="right", exact=True),))
    assert judge.grade(summed, SUM).passed
    report = judge.grade(summed, SUM.replace(", other=0", ""))
    assert report.broken == ("right",)
    # Where every lane has a value, or what the others hold is not stored, nothing is said.
    assert judge.grade(
        summed, SUM.replace("i < N, other=0", "i < N").replace("values)", "tl.where(i < N, values, 0))")
    ).passed


@pytest.mark.parametrize(
    ("result", "message"),
    {
        "x[0]": "y is torch.float32 of shape (256,), expected torch.float32 of shape (16, 256)",
        "x.int()": "y is torch.int32 of shape (16, 256), expected torch.float32",
        "x > 0": "y is torch.bool of shape",
        "torch.complex(x.float(), x.float())": "y is torch.complex64 of shape",
        "x.to_sparse()": "with layout torch.sparse_coo",
        "x.to('meta')": "a tensor on meta",
    }.items(),
)
def test_a_result_of_another_kind_is_reported(result, message):
    report = judge.grade(exercise("bias_gelu"), f"def bias_gelu(x, bias): return {result}")
    assert message in next(one.message for one in report.verdicts if one.state == "broken"), report
