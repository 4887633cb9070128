"""What a learner calls the parameters of a kernel in CUDA C is his affair: what is counted is the exercise's array."""

import pytest
from test_labs import solution

from kernels.grading.judging import judge
from kernels.grading.labs import exercise

SIZES = "int B, int S, int H, int D"


def strided(to: str, of: str, parameters: str = "", name: str = "permuted_copy") -> str:
    """A copy that is right and walks both arrays with a stride."""
    return f"""__global__ void {name}({parameters or f"float* {to}, const float* {of}, {SIZES}"})
    {{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= B * S * H * D) return;
        int s = i % S, d = i / S % D, h = i / (D * S) % H, b = i / (D * S * H);
        {to}[((b * H + h) * S + s) * D + d] = {of}[((b * S + s) * H + h) * D + d];
    }}"""


def is_found(text: str) -> None:
    report = judge.grade(exercise("permuted_copy"), text)
    message = next(one.message for one in report.verdicts if one.state == "broken")
    assert "reads x: 128 requests, each of which asks for 128 bytes and moves 1,024" in message


@pytest.mark.parametrize("names", [("y", "x"), ("out", "in"), ("x", "y"), ("y_ptr", "argument")])
def test_a_strided_copy_is_found_by_any_name(names):
    is_found(strided(*names))


def test_and_where_the_text_hides_its_parameters():
    is_found(f"#define PARAMETERS float* a, const float* b_, {SIZES}\n" + strided("a", "b_", "PARAMETERS"))


@pytest.mark.parametrize("shared", ["values", "x"])
def test_a_right_kernel_is_right_by_other_names(shared):
    text = solution("reduction", "row_argmax")
    assert "x[n]" in text
    text = text.replace("    x += (long", "    input += (long").replace("x[n]", "input[n]")
    text = text.replace("const float* x,", "const float* input,").replace("values[", f"{shared}[")
    report = judge.grade(exercise("row_argmax"), text)
    assert report.passed, report


def test_what_is_not_the_argument_is_told_as_the_learners_own():
    text = """__global__ void row_argmax(float* value, int* index, const float* input, int N)
    {
        __shared__ float x[256];
        x[threadIdx.x] = input[blockIdx.x * N];
        if (threadIdx.x == 0) value[blockIdx.x] = x[0];
    }"""
    found = judge.trace(exercise("row_argmax"), text, next(iter(exercise("row_argmax").cases)))
    assert {one.names for one in found.accesses} == {("your x",), ("x",), ("value",)}
    assert set(found.busiest) == {"your x", "x", "value"}
    assert {request.array for one in found.accesses for request in one.samples} == {"your x", "x", "value"}


def test_a_kernel_by_another_name_is_told_in_a_line():
    report = judge.accepted(exercise("permuted_copy"), strided("y", "x", name="copy"))
    assert report.refused.startswith("there is no kernel permuted_copy")
    assert len(report.refused.splitlines()) == 1
