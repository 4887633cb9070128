"""What a learner reads: the line, the cause, and the first wrong elements."""

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from test_labs import solution

from kernels.grading import cuda, submissions
from kernels.grading.exercise import Call, Property, Trial
from kernels.grading.judging import judge
from kernels.grading.judging.report import Report
from kernels.grading.labs import exercise
from kernels.grading.properties import counters, known_mistakes
from kernels.grading.properties.differences import described, mismatch
from kernels.grading.python.forbidden import violation
from kernels.tolerance import wrong_elements

HEAD = """__global__ void permuted_copy(float* y, const float* x, int B, int S, int H, int D)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * S * H * D) return;
"""


def said(report: Report) -> str:
    (message,) = [one.message for one in report.verdicts if one.state == "broken"][:1]
    return message


def graded(body: str) -> Report:
    return judge.grade(exercise("permuted_copy"), f"{HEAD}{body}\n}}")


def test_a_strided_access_is_told_with_its_line_and_its_bytes():
    report = graded(
        "    int s = i % S, d = i / S % D, h = i / (D * S) % H, b = i / (D * S * H);\n"
        "    y[((b * H + h) * S + s) * D + d] = x[((b * S + s) * H + h) * D + d];"
    )
    message = said(report)
    assert "line 7 reads x: 128 requests, each of which asks for 128 bytes and moves 1,024" in message
    assert "8× the sectors that hold x: 4,096 for 512; let neighbouring threads differ in d" in message


def test_values_in_the_wrong_places_are_told_as_such():
    message = said(graded("    y[i] = x[i];"))
    assert "the right values, in the wrong places" in message
    assert "y[0, 0, 1, 1]: got " in message
    assert "(with B = 2, S = 32, H = 4, D = 16)" in message


def test_what_waits_is_not_judged():
    states = [one.state for one in graded("").verdicts]
    assert states == ["held"] * 3 + ["broken"] + ["waits"] * (len(states) - 4)


def test_of_a_run_that_did_not_end_nothing_is_said_to_hold():
    report = graded("    while (i >= 0) y[i] = x[i];")
    assert report.broken == ("it runs to its end",)
    assert {one.state for one in report.verdicts} == {"broken", "waits"}
    assert "✓" not in repr(report)
    assert "it stays inside its arrays (unknown: the run did not end)" in repr(report)


def test_what_is_wrong_stays_the_same_until_it_is_fixed():
    body = "    y[i] = 2 * x[i];"
    assert repr(graded(body)) == repr(graded(body))


def test_a_trace_shows_the_lines_of_the_cell():
    found = judge.trace(exercise("permuted_copy"), f"{HEAD}    y[i] = x[i];\n}}", "odd")
    assert found.grid == (2, 1, 1)
    assert [one.names for one in found.line(6)] == [("x",), ("y",)]
    with pytest.raises(RuntimeError, match="does not compile"):
        judge.trace(exercise("permuted_copy"), f"{HEAD}    y[i] := x[i];\n}}", "odd")


def test_a_notebook_shows_why_there_is_no_trace_and_no_frames(monkeypatch):
    wrong = {"permuted_copy": f"{HEAD}    y[i] := x[i];\n}}"}
    monkeypatch.setattr(submissions, "_submitted", wrong)
    shell = InteractiveShell()
    with capture_output() as shown:
        shell.run_cell("from kernels.grading import trace\ntrace('permuted_copy')")
    assert shown.stdout.startswith("permuted_copy: does not compile\npermuted_copy.cu does not compile"), shown.stdout
    assert "Traceback" not in shown.stdout
    assert "6 |     y[i] := x[i];" in shown.stdout


def test_what_cannot_be_tried_is_headed_by_the_reason():
    assert graded("    y[i] := x[i];").summary == "permuted_copy: does not compile"
    pooled = exercise("pooled")
    assert judge.grade(pooled, "def pooled(x, step) return x").summary == "pooled: cannot be loaded"
    assert judge.grade(pooled, "import os").summary == "pooled: is not allowed"
    assert submissions.check("smooth").summary == "smooth: not tried yet"


def test_one_hint_a_stage_and_none_where_the_mistake_is_named():
    def saying(name, message, stage="right"):
        return Property(name, lambda _: message, stage, hint=f"hint {name}")

    broken = saying("held", None), saying("first", "wrong"), saying("second", "wrong"), saying("third", None, "costs")
    assert [one.hint for one in judge._verdicts(broken, ())] == ["", "hint first", "", ""]
    named = known_mistakes.right(
        "y", cases=("a",), name="y", likes={"zero": lambda: {"y": torch.zeros(3).double()}}, hint="hint y"
    )
    call = Call({}, expected={"y": torch.ones(3).double()}, baseline={"y": torch.ones(3)})
    for value, ends, hint in ((0.0, "It looks like zero.", ""), (5.0, "(with N = 3)", "hint y")):
        trial = Trial("a", {"N": 3}, call, outputs={"y": torch.full((3,), value)})
        (verdict,) = judge._verdicts((named,), [trial])
        assert (verdict.message.splitlines()[-1], verdict.hint) == (ends, hint)


def test_what_a_launch_leaves_for_the_next_is_told():
    report = judge.grade(
        exercise("map"),
        """__device__ int done;
__global__ void map(float* y, float* x)
{
    if (done) return;
    y[threadIdx.x] = x[threadIdx.x] + 10;
    __syncthreads();
    if (threadIdx.x == 0) done = 1;
}""",
    )
    assert "nothing was written to y" in said(report)
    assert "line 5 reads done, which still holds what the launch before has left in it" in said(report)


def test_a_nan_that_was_computed_is_not_called_unwritten():
    body = "y[threadIdx.x] = threadIdx.x == 3 ? {} : x[threadIdx.x] + 10;"
    code = "__global__ void map(float* y, float* x)\n{{\n    {}\n}}"
    for computed in ("(x[3] - x[3]) / (x[0] - x[0])", "logf(-1 - x[3] * x[3])", "sqrtf(-1)", "NAN"):
        report = judge.grade(exercise("map"), code.format(body.format(computed)))
        assert "every element of y is written" not in report.broken, computed
        assert "y[3]: got nan" in said(report)
    report = judge.grade(exercise("map"), code.format("if (threadIdx.x != 3) y[threadIdx.x] = x[threadIdx.x] + 10;"))
    assert said(report).startswith("1 of 8 elements of y, all in y[3], was never written")


def test_a_nan_that_a_triton_kernel_has_stored_is_not_called_unwritten():
    text, u, store = solution("bias_gelu", "bias_gelu"), "u = x + bias", "y, mask=inside)"
    assert text.count(u) == text.count(store) == 1
    report = judge.grade(exercise("bias_gelu"), text.replace(u, "u = tl.log(-1 - x * x)"))
    assert "every element of y is written" not in report.broken
    assert "y[0, 0]: got nan" in said(report)
    report = judge.grade(exercise("bias_gelu"), text.replace(store, "y, mask=inside & (places % N > 0))"))
    assert report.broken == ("every element of y is written",)
    assert "all in y[:, 0], were never written" in said(report)


@pytest.mark.parametrize("body", ["y[t] += x[t] + 10;", "y[t] = y[t] + x[t] + 10;", "atomicAdd(&y[t], x[t] + 10);"])
def test_an_output_that_is_read_before_it_is_written_is_told_with_the_line(body):
    code = f"__global__ void map(float* y, float* x)\n{{\n    int t = threadIdx.x;\n    {body}\n}}"
    message = said(judge.grade(exercise("map"), code))
    assert message.startswith("every element of y is NaN: line 5 reads y, and what it holds before")


def test_a_hint_follows_the_finding():
    two = Property(
        "ordered", lambda _: "an uninitialised read", "runs", {"uninitialised read": "is it written?", "": "wait"}
    )
    (verdict,) = judge._verdicts((two,), ())
    assert verdict.hint == "is it written?"
    assert two.hint_for("a race") == "wait"


@pytest.mark.parametrize(
    ("search", "replace", "ends", "hint"),
    [
        ("i < H && ", "", "", "Each index needs its own guard"),
        ("y[i * y_stride", "y[i * x_stride", "so no guard is missing: an index is too large", "has x_stride elements"),
    ],
)
def test_a_missing_guard_and_a_wrong_stride_are_told_apart(search, replace, ends, hint):
    report = judge.grade(exercise("normalise"), solution("guards", "normalise").replace(search, replace))
    assert report.broken == ("it stays inside its arrays",)
    assert said(report).endswith(ends)
    assert hint in report.verdicts[0].hint


@pytest.mark.parametrize(
    ("lab", "name", "search", "replace", "cause"),
    [
        ("bias_gelu", "bias_gelu", "0.7071067811865476", "0.707", "a constant of few digits"),
        ("graph_breaks", "clip_rows", "norms.clamp(", "norms.detach().clamp(", "and is detached"),
        ("graph_breaks", "pooled", "(0, (-1, 4)).mean(1)", "(0, (4, -1)).mean(0)", "groups of other rows"),
        (
            "layer_norm_backward",
            "layer_norm_backward",
            "tl.sum(g) / N",
            "tl.sum(g) / BLOCK_N",
            "BLOCK_N in the mean of g:",
        ),
        ("roofline", "attainable", "max=peak", "min=peak", "the higher of the two"),
        (
            "roofline",
            "fewest_milliseconds",
            "- between + 1",
            "- between + reads.shape[1]",
            "still writes what lies between",
        ),
        ("roofline", "least_batch", "torch.ceil", "torch.floor", "a row too few"),
        (
            "roofline",
            "least_batch",
            "torch.ceil(needed / spare)",
            "(needed // spare + 1)",
            "that is one already is enough",
        ),
        (
            "attention",
            "flash_attention",
            "p = tl.exp(s - larger)\n        fade = tl.exp(",
            "p = tl.exp2(s - larger)\n        fade = tl.exp2(",
            "powers of 2 in place of e",
        ),
        ("rope", "turn_halves", "h < H + K", "h < 0", "nothing was written to qkv"),
        (
            "cross_entropy",
            "cross_entropy",
            "largest, total = -3.402823466e38, 0.0",
            "largest, total = -3.402823466e38, 0",
            "total = 0.0",
        ),
        (
            "cross_entropy",
            "cross_entropy",
            "tl.maximum(before, tl.max(x))",
            "tl.max(before, tl.max(x))",
            "tl.maximum(a, b)",
        ),
    ],
)
def test_a_mistake_is_named_by_its_values(lab, name, search, replace, cause):
    text = solution(lab, name)
    assert text.count(search) == 1
    report = judge.grade(exercise(name), text.replace(search, replace))
    assert cause in said(report), report


def test_what_is_beyond_an_int_has_a_hint_of_its_own():
    """And a product that was never finished is not said to be rounded."""
    text = solution("paged_decode", "part_of_keys")
    report = judge.grade(
        exercise("part_of_keys"), text.replace("(long long)blockIdx.x * keys", "(int)(blockIdx.x * keys)")
    )
    assert "The product of two ints is an int" in report.verdicts[0].hint
    text = solution("rope", "turn_back")
    report = judge.grade(exercise("turn_back"), text.replace("p.x * c + p.y * n", "p.x * c - p.y * n"))
    assert "each result is rounded once" not in report.broken and report.broken


def test_a_division_by_zero_goes_on_as_on_a_gpu():
    assert "y[0, 0, 0, 0]: got -1, expected" in said(graded("    y[i] = i / (B / 1000000);"))


def test_numbers_are_readable_and_counts_have_their_launch():
    trials = cuda.run(
        exercise("permuted_copy"),
        f"{HEAD}    if (i % 5 == 0 || i == 7)\n        y[i] = x[i] + x[0] * 2;\n}}",
        judge._calls(exercise("permuted_copy"), 0),
        0,
    )
    few = counters.fewest_sectors("store", "y", "even", name="few", advice="advice", times=0.5).broken(trials)
    assert "128 requests, which on average ask for 26 bytes and move 128" in few, few
    assert few.endswith("(with B = 2, S = 32, H = 4, D = 16)")
    barriers = counters.at_most("global_load_requests", lambda **_: 3, "even", name="most", advice="advice").broken(
        trials
    )
    assert "requests in 16 blocks of 256 threads, where 3 would do; advice" in barriers
    assert counters._times(8) == "8" and counters._times(1023.6) == "1,024" and counters._times(1.2345) == "1.23"


def test_what_a_kernel_prints_is_shown_once_and_cut():
    right = "    int d = i % D, s = i / D % S, h = i / D / S % H, b = i / D / S / H;\n"
    right += "    y[i] = x[((b * S + s) * H + h) * D + d];\n"
    report = graded(right + '    if (i == 0) printf("%d\\n", S);')
    asked = exercise("permuted_copy")
    watched = [sizes for case, sizes in asked.cases.items() if case not in asked.unwatched]
    assert report.passed
    assert report.printed == "".join(f"{sizes['S']}\n" for sizes in watched)
    assert len(graded(right + '    printf("%f\\n", x[i]);').printed) < 2_100


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ([(0, 0)], "1 of 12 elements of y, all in y[0, 0], is"),
        ([(1, 2), (2, 2)], "2 of 12 elements of y, all in y[1:, 2], are"),
        ([(0, 0), (2, 3)], "2 of 12 elements of y are"),
        ([(0, 0), (1, 1)], "2 of 12 elements of y, all in y[:2, :2], are"),
    ],
)
def test_where_elements_are(wrong, words):
    chosen = torch.zeros(3, 4, dtype=torch.bool)
    for at in wrong:
        chosen[at] = True
    assert described("y", chosen, "is", "are") == words
    assert described("y", torch.ones(2, dtype=torch.bool), "is", "are") == "every element of y is"


def test_no_more_than_the_first_three_are_shown():
    got, expected = torch.zeros(5), torch.arange(5.0)
    lines = mismatch("y", got, expected, got != expected).splitlines()
    assert lines == ["4 of 5 elements of y, all in y[1:], are wrong"] + [
        f"y[{i}]: got 0, expected {i}" for i in (1, 2, 3)
    ]


def test_numbers_that_differ_are_shown_as_such():
    got, expected = torch.tensor([0.4150820]), torch.tensor([0.41508206], dtype=torch.float64)
    assert mismatch("y", got, expected, got != expected).splitlines()[1] == "y[0]: got 0.415082008, expected 0.41508206"


def test_rounding_is_not_wrong_and_nan_and_zero_are():
    exact = torch.linspace(1, 2, 100, dtype=torch.float64)
    good = exact.float()
    assert not wrong_elements(good, exact, good).any()
    for value in (float("nan"), 0.0, float("inf")):
        bad = good.clone()
        bad[7] = value
        assert wrong_elements(bad, exact, good).nonzero().tolist() == [[7]]


@pytest.mark.parametrize(
    "text",
    [
        "import os",
        "import sys",
        "import numpy as np",
        "import kernels",
        "from kernels.grading import judge",
        "from . import judge",
        "from torch import sys",
        "import torch.multiprocessing as processes",
        "from torch.utils._python_dispatch import _disable_current_modes",
        "from torch.library import impl",
        "import triton.runtime.interpreter as interpreter",
        "import torch\nt = torch.Tensor\nt.double = None",
        "import torch\ntorch.equal = None",
        "import torch\ntorch.nn.functional.gelu = None",
        "import torch as t\ndel t.equal",
        "import torch\ntorch.Tensor.double, a = None, 1",
        "import torch\nfor torch.equal in range(3): pass",
        "setattr(1, 'a', 2)",
        "exec('')",
        "import torch\ntorch.sys.exit()",
        "def f(): pass\nf.__globals__",
        "().__class__",
    ],
)
def test_bad_manners_are_seen(text):
    assert violation(text, "torch")


@pytest.mark.parametrize(
    "text",
    [
        "import torch, triton\nimport triton.language as tl\nimport torch.nn.functional as F\nimport math",
        "from torch.nn import functional\nfrom triton.language.extra import libdevice\nfrom __future__ import annotations",
        "import torch\nx = torch.empty(3)\nx.grad = None",
        "import torch\nclass M(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.w = 1",
        "import torch\nf = torch.compile(lambda x: x, fullgraph=True)",
        "x = [1]\nx[0] = 2",
        "def f(: wrong",
    ],
)
def test_good_manners_are_let_through(text):
    assert violation(text, "torch") is None


_TO_HALVES = """for (int left = blockDim.x; left > 1; left = (left + 1) / 2) {
        int half = (left + 1) / 2;
        if (t + half < left)"""
_FROM_64 = """for (int half = 64; half > 0; half /= 2) {
        if (t < half && t + half < blockDim.x)"""


@pytest.mark.parametrize(
    ("lab", "name", "edits", "message", "hint"),
    [
        (
            "rope",
            "turn_halves",
            {
                "h < H + K": "h < H + 2 * K",
                "x[h * D] = a * c": "if (h >= H + K && a < 1e36f) continue;\n x[h * D] = a * c",
            },
            "so many have q, k and v, 8 heads, and v is not yours",
            "Where does the loop over the heads end?",
        ),
        (
            "matmul",
            "tiled_matmul",
            {"sums[r][c] += x4[r]": "if (x4[r] != 0.0f) sums[r][c] += x4[r]"},
            "expected nan",
            "a product with a 0 must not be left out",
        ),
        (
            "detective",
            "row_total",
            {_TO_HALVES: _FROM_64},
            "(with M = 2, T = 300)",
            "with which half does it begin",
        ),
        (
            "paged_decode",
            "join_parts",
            {
                "m = fmaxf(m, largest[first + i])": "kept[i] = largest[first + i], m = fmaxf(m, kept[i])",
                "float m =": "float kept[1024], m =",
            },
            "an array of 1,024",
            "`parts` has no limit",
        ),
        (
            "registering",
            "ema_",
            {"average.contiguous()": "average.clone()"},
            "average = transposed and spread",
            "clone() keeps the order of a transposed one",
        ),
        (
            "start",
            "scale",
            {"int n)": "int n, float a)"},
            "the kernel takes 4 arguments, got 3",
            "the parameters that the cell began with",
        ),
        (
            "start",
            "scale",
            {"float* y": "double* y"},
            "of torch.float32, but the parameter y is double*",
            "the parameters that the cell began with",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isidentifier() else "",
)
def test_a_hint_is_one_for_this_mistake(lab, name, edits, message, hint):
    text = solution(lab, name)
    for search, replace in edits.items():
        assert text.count(search) == 1, search
        text = text.replace(search, replace)
    report = judge.grade(exercise(name), text)
    assert message in said(report), report
    assert hint in next(one.hint for one in report.verdicts if one.state == "broken"), report


def test_of_a_misaligned_access_the_hint_says_nothing_of_spare_threads():
    report = graded(
        "    if (4 * i >= B * S * H * D) return;\n"
        "    i *= 4;\n"
        "    int d = i % D, h = i / D % H, s = i / (D * H) % S, b = i / (D * H * S);\n"
        "    *(float4*)&y[((b * H + h) * S + s) * D + d] = *(const float4*)&x[i];"
    )
    assert "misaligned access" in said(report)
    assert [one.hint for one in report.verdicts if one.hint][0].startswith(
        "A float4 begins at a multiple of four floats"
    )
