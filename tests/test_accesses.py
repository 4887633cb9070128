"""The measured accesses: right on this machine, refused when wrong, stored for every case."""

import dataclasses

import pytest
import torch

from book.recorders.accesses import measured
from kernels import lens
from kernels.measure.recorded import accesses

GPU = "NVIDIA H200"
ALL = [(group, key) for group, cases in accesses.CASES.items() for key in cases]
OF_EACH_KERNEL = {accesses.CASES[group][key].launch().kernel.name: (group, key) for group, key in ALL}


@pytest.mark.parametrize(("group", "key"), ALL, ids=str)
def test_a_case_computes_what_it_should(group, key):
    case = accesses.CASES[group][key]
    launch = case.launch()
    assert not case.right(*launch.args)
    launch.run()
    assert case.right(*launch.args)


@pytest.mark.parametrize("name", OF_EACH_KERNEL)
def test_the_lens_finds_nothing_wrong(name):
    group, key = OF_EACH_KERNEL[name]
    traced = lens.trace(*accesses.CASES[group][key].launch(), blocks=16)
    assert (traced.findings, traced.error) == ((), None)


def test_cases_are_timed_together_and_checked():
    group = accesses.CASES["strides"]
    rows = measured({key: group[key] for key in (1, 8)}, rounds=2, device="cpu", n=256)
    assert [(row["case"], row["n"]) for row in rows] == [(1, 256), (8, 256)]
    assert all(0 < row["p20_us"] <= row["median_us"] <= row["p80_us"] for row in rows)


def test_a_case_with_a_wrong_result_has_no_time():
    case = accesses.CASES["strides"][2]
    wrong = dataclasses.replace(case, right=lambda x, y, stride, n: torch.equal(y, x[1::stride]))
    with pytest.raises(AssertionError, match="strided, case 2: the result is wrong"):
        measured({2: wrong}, rounds=2, device="cpu", n=64)


def test_a_case_has_its_file():
    for group, key in (("strides", 1), ("transposes", "tile"), ("chains", (8, 1))):
        case = accesses.CASES[group][key]
        assert case.launch().kernel.name.split("<")[0] in case.source.read_text()


def test_a_function_is_cut_out_of_the_file_whole():
    source = accesses.CASES["branches"]["by lane"].function("grown").source
    assert source.startswith("__device__ float grown(")
    assert source.endswith("return value;\n}")
    kernel = accesses.CASES["strides"][1].function().source
    assert kernel.startswith("// y[i] = x[i * stride]")
    assert kernel.count("__global__") == 1


@pytest.mark.parametrize("group", accesses.CASES)
def test_every_case_is_stored(group):
    cases = accesses.CASES[group]
    assert list(accesses.times(GPU, group)) == list(cases)
    if next(iter(cases.values())).bytes:
        assert all(0 < rate < 5000 for rate in accesses.rates(GPU, group).values())  # GB/s
