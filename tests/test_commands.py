"""python -m kernels, as a user calls it."""

import re
from dataclasses import replace

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import kernels.__main__ as main
import kernels.check
from kernels import systems
from kernels.__main__ import app
from kernels.check import Result
from kernels.measure import Comparison, Results, Row, results
from kernels.measure import bench as benching

CASES = tuple(kernels.Case((8, 32), params=params) for params in ({}, {"eps": 0.1}))


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # of what Typer writes
    monkeypatch.setattr(main, "out", Console(width=200))

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
    [
        ("cuda/block", "__global__ void layer_norm_block"),
        ("triton", "def layer_norm_row_kernel"),
        ("native", "keepdim"),
    ],
)
def test_show_prints_the_real_source(run, variant, text):
    done = run("show", "layer_norm", variant)
    assert done.exit_code == 0
    assert text in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "layer_norm", "cuda/warpp"), "it has native/eager"),
        (("show", "layernorm", "cuda"), "there is no operation 'layernorm'; there are add_rms_norm, "),
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
    monkeypatch.setattr(
        kernels.check,
        "check",
        lambda op, variants, *rest: (r for r in results if r.variant in [v.key for v in variants]),
    )
    assert run("check", "--wrong", "--device", "cpu").exit_code == 0
    for passed in (None, "raised ValueError: old: is not in the source"):  # what crashes was not rejected
        results[3] = Result("layer_norm", names[3], case, 0.5, passed)
        assert run("check", "--wrong", "--device", "cpu").exit_code == 1


@pytest.fixture
def checked(monkeypatch):
    """The (variant, case) that the check is asked for; what is wrong is rejected on cases with more than one row."""
    asked = []

    def check(op, variants, cases, device):
        for case in cases:
            for variant in variants:
                asked.append((variant.key, case))
                yield Result(
                    op.name, variant.key, case, 7.0, "y: wrong" if variant in op.wrong and case.shape[0] > 1 else None
                )

    monkeypatch.setattr(kernels.check, "check", check)
    return asked


def test_check_meets_a_selection_and_with_all_everything(run, checked):
    op = kernels.operation("layer_norm")
    cases = (*op.cases["edge"], *op.cases["model"])
    assert run("check", op.name, "--device", "cpu").exit_code == 0
    assert {key for key, _ in checked} == {variant.key for variant in op.variants}
    assert len(checked) < len(op.variants) * len(cases) / 10
    checked.clear()
    assert run("check", op.name, "--device", "cpu", "--all").exit_code == 0
    assert len(checked) == len(op.variants) * len(cases)


def test_check_of_wrong_variants_ends_where_each_is_rejected(run, checked):
    op = kernels.operation("layer_norm")
    assert run("check", op.name, "--device", "cpu", "--wrong").exit_code == 0
    for variant in op.wrong:
        *passed, rejected = [case for key, case in checked if key == variant.key]
        assert rejected.shape[0] > 1
        assert all(case.shape[0] <= 1 for case in passed)
    checked.clear()
    assert run("check", op.name, "--device", "cpu", "--wrong", "--all").exit_code == 0
    assert len(checked) == len(op.wrong) * sum(len(op.cases[kind]) for kind in ("edge", "model"))


@pytest.mark.parametrize("device", ["tpu", *([] if torch.cuda.is_available() else ["cuda"])])
def test_a_device_that_is_not_here_is_named(run, device):
    done = run("check", "--device", device)
    assert done.exit_code == 2
    assert f"device: got '{device}'" in done.output


def test_a_cpu_run_records_nothing(run, tmp_path):
    done = run("bench", "--device", "cpu", "--json", str(tmp_path))
    assert done.exit_code == 2
    assert not list(tmp_path.iterdir())


@pytest.fixture
def doctored(monkeypatch):
    """doctored(ours=…, torch=…, copy=…) makes bench measure those times, on a GPU whose stored ones are 1, 2 and 0.9."""
    op = replace(kernels.operation("layer_norm"), cases={"bench": CASES, "model": ()})

    def comparison(case, direction="forward", **times):
        kinds = {"torch": ("peer", None), "copy": ("copy", None)}
        where = results.where(op.name, case, direction)
        rows = []
        for name, ms in times.items():
            kind, level = kinds.get(name, ("variant", 4))
            rows.append(
                Row(
                    **where,
                    contestant=name,
                    kind=kind,
                    level=level,
                    median_ms=ms,
                    p20_ms=ms,
                    p80_ms=ms,
                    max_error_ratio=0.5,
                )
            )
        return Comparison("doctored", "cuda", tuple(rows), {})

    def measured(backward=None, params=None, **times):
        """`params` says at which case, the other is as before."""

        def compare(op, case, variants, device, direction, ceilings):
            here = times if direction == "forward" else backward or before
            return comparison(case, direction, **(here if case.params == (params or {}) else before))

        monkeypatch.setattr(benching, "compare", compare)

    before = {"ours": 1.0, "torch": 2.0, "copy": 0.9}
    rows = [
        row
        for case in CASES
        for direction in ("forward", "backward")
        for row in comparison(case, direction, **before).as_data()
    ]
    monkeypatch.setattr(main, "stored", lambda operation: Results({}, {}, rows))
    monkeypatch.setattr(benching, "ceilings", lambda device: {})
    monkeypatch.setattr(benching, "facts", lambda: {"gpu": "NVIDIA H200", "commit": "abc"})
    monkeypatch.setattr(main, "commit", lambda: "abc")
    monkeypatch.setattr(main, "_device", lambda device: "cuda")
    monkeypatch.setattr(main, "_operation", lambda name: op)
    return measured


def test_compare_is_green_while_nothing_fell(run, doctored):
    doctored(ours=1.1, torch=2.0, copy=0.9)
    done = run("bench", "layer_norm", "--compare")
    assert done.exit_code == 0
    assert "no ratio fell" in done.output


@pytest.mark.parametrize(
    ("times", "line"),
    [
        (
            {"ours": 2.0, "torch": 2.0, "copy": 0.9},
            "ours +layer_norm +forward +8×32 float32 +of the best peer +2.00 +1.00",
        ),
        (
            {"ours": 1.0, "torch": 1.5, "copy": 0.9},
            "ours +layer_norm +forward +8×32 float32 +of the best peer +2.00 +1.50",
        ),
        ({"ours": 1.0, "torch": 2.0, "copy": 0.5}, "ours +layer_norm +forward +8×32 float32 +of the copy +0.90 +0.50"),
        ({"torch": 2.0, "copy": 0.9}, "ours +layer_norm +forward +8×32 float32 +of the copy +0.90 +not timed"),
    ],
)
def test_compare_exits_1_and_says_what_fell(run, doctored, times, line):
    doctored(**times)
    done = run("bench", "layer_norm", "--compare")
    assert done.exit_code == 1
    assert re.search(line, done.output)
    assert "backward  8" not in re.sub(" +", "  ", done.output)


def test_compare_sees_the_backward_too(run, doctored):
    doctored(**{"ours": 1.0, "torch": 2.0, "copy": 0.9}, backward={"ours": 1.0, "torch": 1.0, "copy": 0.9})
    done = run("bench", "layer_norm", "--compare")
    assert done.exit_code == 1
    assert re.search("ours +layer_norm +backward +8×32 float32 +of the best peer +2.00 +1.00", done.output)


def test_compare_tells_params_apart(run, doctored):
    doctored(params={"eps": 0.1}, ours=2.0, torch=2.0, copy=0.9)
    done = run("bench", "layer_norm", "--compare")
    assert done.exit_code == 1
    assert re.search("ours +layer_norm +forward +8×32 float32 eps=0.1 +of the best peer +2.00 +1.00", done.output)
    assert not re.search("8×32 float32 +of", done.output)


def test_quick_times_and_compares_one_case(run, doctored):
    doctored(params={"eps": 0.1}, ours=2.0, torch=2.0, copy=0.9)
    done = run("bench", "layer_norm", "--compare", "--quick")
    assert done.exit_code == 0
    assert done.output.count("doctored") == 2  # forward and backward


def test_when_the_time_is_over_it_exits_3_says_what_is_left_and_goes_on_with_that(run, doctored, tmp_path):
    doctored(ours=1.0, torch=2.0, copy=0.9)
    words = ("bench", "layer_norm", "--json", str(tmp_path), "--compare")
    done = run(*words, "--minutes", "0")
    assert done.exit_code == main.TIME_IS_OVER == 3
    assert "0 minutes are over; left: layer_norm forward 8×32 float32, " in done.output
    assert "no ratio fell" in done.output
    done = run(*words)
    assert done.exit_code == 0
    assert f"12 rows in {tmp_path}/operations/layer_norm/h200.json" in done.output
    assert "doctored" not in run(*words).output
    assert run(*words, "--fresh").output.count("doctored") == 4


def test_what_is_in_no_commit_and_what_is_compared_with_are_not_stored(run, doctored, monkeypatch, tmp_path):
    doctored(ours=1.0, torch=2.0, copy=0.9)
    for option in ("--compare", "--quick"):
        done = run("bench", "layer_norm", "--json", str(results.FOLDER), option)
        assert done.exit_code == 2
        assert "name another folder" in re.sub(r"[\s│]+", " ", done.output)
    monkeypatch.setattr(main, "commit", lambda: None)
    done = run("bench", "layer_norm", "--json", str(tmp_path))
    assert done.exit_code == 2
    assert "KERNELS_COMMIT=<hash>" in re.sub(r"[\s│]+", " ", done.output)
    assert not list(tmp_path.iterdir())


def test_compare_on_a_cpu_says_that_nothing_is_stored(run):
    done = run("bench", "--compare", "--device", "cpu")
    assert done.exit_code == 2
    assert "nothing stored to compare a CPU with" in re.sub(r"[\s│]+", " ", done.output)


def test_demo_lists_shows_and_names_what_is_unknown(run):
    assert "compute them again" in " ".join(run("demo", "--list").output.split())
    shown = run("demo", "checkpointing", "--quick", "--device", "cpu")
    assert shown.exit_code == 0 and "proved    output and gradients" in shown.output
    assert "there is no system 'warp_drive'" in run("demo", "warp_drive").output


def test_a_demo_of_a_system_that_is_wrong_fails(run, monkeypatch):
    record = replace(systems.system("buckets"), check=lambda make, device: (2.0, "output 3 is off"))
    monkeypatch.setattr(systems, "system", lambda name: record)
    for options in ((), ("--quick",)):
        done = run("demo", "buckets", "--device", "cpu", *options)
        assert done.exit_code == 1 and "buckets is wrong on cpu: output 3 is off" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--device", "tpu"), "device: got 'tpu', expected 'cpu' or 'cuda'"),
        (("--quickly",), "No such option"),
        (("buckets", "warp_drive", "--list"), "there is no system 'warp_drive'"),
    ],
)
def test_a_bad_argument_of_a_demo_is_named(run, options, said):
    done = run("demo", *options)
    assert done.exit_code == 2 and said in re.sub(r"[\s│]+", " ", done.output)


def test_serve_names_what_it_cannot_serve(run, tmp_path):
    for options, said in (((), "expected a file that kernels.serving.export wrote"), (("--port", "-1"), "--port")):
        done = run("serve", str(tmp_path / "model.pt2"), *options)
        assert done.exit_code == 2 and said in re.sub(r"[\s│]+", " ", done.output)


def test_drawn_shapes_are_refused_where_they_say_nothing(run, monkeypatch):
    def refused(*words):
        done = run("bench", *words, "--drawn", "2")
        assert done.exit_code == 2
        return re.sub(r"[\s│]+", " ", done.output)

    assert "this run would be on a CPU" in refused("layer_norm", "--device", "cpu")
    monkeypatch.setattr(main, "_device", lambda device: "cuda")
    assert "are of bench cases" in refused("layer_norm", "--compare")
    assert "are of bench cases" in refused("layer_norm", "--quick")
    assert "decode: no shapes are drawn of it" in refused("decode")
