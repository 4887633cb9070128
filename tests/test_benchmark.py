"""Functions and models measured: what is refused, by its name; results as tables and pictures."""

import pytest
import torch
from torch import nn

from kernels import measure
from kernels.figures import PLOTLY_MIME


def test_a_benchmark_says_how_it_was_taken():
    found = measure.benchmark(torch.sin, torch.randn(8), warmup=1, repeat=4)
    assert found.p20_ms <= found.median_ms <= found.p80_ms
    assert (found.device, found.repeat) == ("cpu", 4) and "on a CPU (20–80 %" in repr(found)


def test_calls_are_as_many_as_said():
    calls = []
    measure.benchmark(lambda x: calls.append(x), torch.ones(1), warmup=0, repeat=3)
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("error", "said", "call"),
    [
        (TypeError, "^fn: got int, expected a function", lambda x: measure.benchmark(3, x)),
        (
            ValueError,
            "^warmup: got -1, expected an integer of at least 0",
            lambda x: measure.benchmark(abs, x, warmup=-1),
        ),
        (
            ValueError,
            "^repeat: got 1, expected an integer of at least 2",
            lambda x: measure.benchmark(abs, x, repeat=1),
        ),
        (ValueError, "^args: tensors .* on cpu and meta", lambda x: measure.benchmark(abs, x, [x.to("meta")])),
        (
            ValueError,
            "^args: tensors .* on cpu and meta",
            lambda x: measure.benchmark(nn.ReLU(), x, {"a": x.to("meta")}),
        ),
        (ValueError, "^functions: got 1, expected at least two", lambda x: measure.compare({"one": abs}, x)),
        (TypeError, "^functions: one is Tensor, expected", lambda x: measure.compare({"one": x, "two": abs}, x)),
        (ValueError, "^functions: two writes to its", lambda x: measure.compare({"one": abs, "two": torch.abs_}, x)),
        (ArithmeticError, "^two and one give different", lambda x: measure.compare({"one": abs, "two": torch.sin}, x)),
        (ArithmeticError, "^c and a give", lambda x: measure.compare({"a": abs, "b": torch.abs, "c": torch.neg}, x)),
    ],
)
def test_what_cannot_be_timed_is_named(error, said, call):
    with pytest.raises(error, match=said):
        call(torch.randn(8))


def test_functions_are_compared_as_a_table_and_a_picture():
    run = measure.compare({"two outputs": lambda x: (x, x.sin()), "again": lambda x: (x, torch.sin(x))}, torch.randn(8))
    assert list(run.times) == ["two outputs", "again"]
    assert "two outputs" in run._repr_mimebundle_()["text/plain"]
    assert PLOTLY_MIME in run.plot()._repr_mimebundle_()


def test_a_profile_is_a_table_and_a_picture():
    found = measure.profile_model(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.randn(2, 8))
    assert "0 (Linear)" in found._repr_mimebundle_()["text/plain"]
    assert "0 (Linear)" in repr(found.plot())
    with pytest.raises(KeyError, match="name: got '2', expected one of '', '0', '1'"):
        found["2"]


def test_what_cannot_be_profiled_is_named():
    for made in (torch.jit.script(nn.ReLU()), torch.compile(nn.ReLU())):
        with pytest.raises(TypeError, match="^model: got a .*, expected the module before it was compiled"):
            measure.profile_model(made, torch.randn(2))
    with pytest.raises(TypeError, match="^model: got builtin_function_or_method, expected a torch.nn.Module"):
        measure.profile_model(abs, torch.randn(2))


def test_a_model_that_fails_keeps_no_hooks():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(9, 9))
    with pytest.raises(RuntimeError):
        measure.profile_model(model, torch.randn(2, 8))
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in model.modules())


def test_levels_are_a_table_with_reasons():
    found = measure.levels(nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)), torch.randn(4, 8))
    said = " ".join(found._repr_mimebundle_()["text/plain"].split())
    assert "scripted" in said and "cuda: right, and not timed" in said
    assert found.ratio("eager", "traced").median > 0 and "traced" in repr(found.plot())


@pytest.mark.parametrize(
    ("error", "said", "call"),
    [
        (TypeError, "^module: got function, expected a torch", lambda x: measure.levels(lambda x: x, x)),
        (
            TypeError,
            "^module: got a .*, expected the module before",
            lambda x: measure.levels(torch.compile(nn.ReLU()), x),
        ),
        (ValueError, "^module: two calls give different .*module.eval", lambda x: measure.levels(nn.Dropout(), x)),
        (ValueError, "^args: tensors .* on cpu and meta", lambda x: measure.levels(nn.Linear(8, 8).to("meta"), x)),
    ],
)
def test_what_has_no_levels_is_named(error, said, call):
    with pytest.raises(error, match=said):
        call(torch.randn(4, 8))


def test_a_module_of_which_the_course_has_nothing_says_so():
    found = measure.levels(nn.Linear(8, 8), torch.randn(4, 8))
    assert found.left["triton"] == "none of its modules is one that the course has: the course has no Linear"
