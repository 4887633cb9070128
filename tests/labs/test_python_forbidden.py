"""Texts for torch.compile name no CPU: here all tensors are there, and a graph would not show what a GPU waits for."""

import pytest

from kernels.grading.python.forbidden import violation

TEXT = "def f(x):\n    return {}\n"


@pytest.mark.parametrize(
    "expression",
    [
        'x.norm().to(torch.device("cpu"))',
        'x.norm().to(torch.device(type="cpu"))',
        'x.to(device="cpu:0")',
        'torch.empty(3, device="cpu").copy_(x)',
        "torch.from_numpy(x.detach().numpy())",
        "x.detach().numpy()",
    ],
)
def test_a_way_to_the_cpu_that_no_graph_shows_is_refused_with_its_reason(expression):
    said = violation(TEXT.format(expression), "torch")
    assert said, expression
    assert "name the CPU" in said or "NumPy's arrays are on the CPU" in said


@pytest.mark.parametrize(
    "expression",
    [
        "x.norm().to(x.device)",
        "torch.empty(3, device=x.device)",
        'torch.empty(3, device="cuda")',
        "torch._check(x.ndim == 2)",
        "torch._assert_async(x.any())",
        'x.to("cpu")',  # which the graph shows
    ],
)
def test_other_ways_are_allowed(expression):
    assert violation(TEXT.format(expression), "torch") is None


def test_the_exercises_own_line_may_import_what_the_text_may_not():
    given = "import torch; from kernels.grading.labs.registering.starter import launch_ema\n"
    assert violation(given + TEXT.format("launch_ema(x, x, 0.5)"), "torch", given=1) is None
    assert violation(given + TEXT.format("x"), "torch")
    for text in ("import kernels\n", "torch.library.opcheck = print\n", "launch_ema.__globals__\n"):
        assert violation(given + text, "torch", given=1), text
