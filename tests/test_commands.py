"""python -m kernels, as a user calls it."""

import pytest
import torch
from typer.testing import CliRunner

import kernels.check
from kernels.__main__ import app
from kernels.check import Result


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str):
        return CliRunner().invoke(app, words)

    return run


def test_doctor_names_what_is_here(run):
    said = run("doctor").output
    for word in ("C++ compiler", "torch", "triton", "CuPy", "GPU", "PyPI's `kernels`"):
        assert word in said


def test_list_names_every_variant(run):
    said = run("list").output
    for variant in kernels.operation("layer_norm").variants:
        assert variant.key in said


@pytest.mark.parametrize(
    ("variant", "text"),
    [("cuda/block", "__global__ void layer_norm"), ("triton", "def row_kernel"), ("native", "keepdim")],
)
def test_show_prints_the_real_source(run, variant, text):
    done = run("show", "layer_norm", variant)
    assert done.exit_code == 0
    assert text in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "layer_norm", "cuda/warpp"), "it has native/eager"),
        (("show", "layernorm", "cuda"), "there is no operation 'layernorm'; there are layer_norm"),
        (("check", "layernorm"), "there is no operation 'layernorm'"),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_ones(run, words, message):
    done = run(*words)
    assert done.exit_code == 2
    assert message in done.output


def test_check_exits_1_and_names_case_variant_error_and_bound(run, monkeypatch):
    case = kernels.Case((3, 5), "float16")
    failure = "y: rms is 7 × its bound"
    monkeypatch.setattr(
        kernels.check, "check", lambda *a, **k: iter([Result("layer_norm", "triton/row", case, 7.0, failure)])
    )
    done = run("check", "layer_norm", "--device", "cpu")
    assert done.exit_code == 1
    assert "layer_norm triton/row on 3×5 float16: y: rms is 7 × its bound" in done.output


def test_check_of_wrong_variants_exits_1_when_one_passes(run, monkeypatch):
    case = kernels.Case((3, 5), "float16")
    names = [variant.key for variant in kernels.operation("layer_norm").wrong]
    results = [Result("layer_norm", name, case, 7.0, "y: wrong") for name in names]
    monkeypatch.setattr(kernels.check, "check", lambda *a, **k: iter(results))
    assert run("check", "--wrong", "--device", "cpu").exit_code == 0
    results[3] = Result("layer_norm", names[3], case, 0.5)
    assert run("check", "--wrong", "--device", "cpu").exit_code == 1


@pytest.mark.parametrize("device", ["tpu", *([] if torch.cuda.is_available() else ["cuda"])])
def test_a_device_that_is_not_here_is_named(run, device):
    done = run("check", "--device", device)
    assert done.exit_code == 2
    assert f"device: got '{device}'" in done.output


def test_a_cpu_run_records_nothing(run, tmp_path):
    done = run("bench", "--device", "cpu", "--json", str(tmp_path))
    assert done.exit_code == 2
    assert not list(tmp_path.iterdir())
