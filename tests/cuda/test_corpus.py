"""Every kernel of the corpus against its reference, on every device, and through NVIDIA's compiler."""

import functools
import importlib
import re

import pytest
from corpus.case import FOLDER

from kernels.cuda import RawModule
from kernels.cuda.order import current_seed

CASES = [
    case
    for module in sorted(FOLDER.glob("*_cases.py"))
    for case in importlib.import_module(f"corpus.{module.stem}").CASES
]

# A file is compiled once for each set of options, with all the kernels that are launched from it.
UNITS = {(case.file, case.options): [] for case in CASES}
for case in CASES:
    UNITS[case.file, case.options] += case.kernels


@functools.cache
def module(file, options, seed):
    # `seed`: every order has a module of its own, whose variables start afresh.
    path = FOLDER / file
    waits_for_the_grid = "this_grid()" in path.read_text()
    return RawModule(
        path=path,
        options=options,
        name_expressions=UNITS[file, options],
        enable_cooperative_groups=waits_for_the_grid,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_kernel_equals_its_reference(case, device):
    arguments = case.arguments()
    expected = case.expected(arguments)
    after = case.run(module(case.file, case.options, current_seed()), arguments, device)
    wrong = {name: case.errors(after[name], want) for name, want in expected.items()}
    assert not any(wrong.values()), f"elements beyond the tolerance: {wrong}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_kernel_that_writes_nothing_or_zeros_fails(case):
    arguments = case.arguments()
    for name, want in case.expected(arguments).items():
        assert case.errors(arguments[name], want), f"{name} is right before the launch"
        assert case.errors(arguments[name].new_zeros(want.shape), want), f"{name} may be zero"


@pytest.mark.parametrize(
    "file, options", UNITS, ids=lambda value: " ".join((value,) if isinstance(value, str) else value)
)
def test_nvrtc_compiles_the_file(file, options, nvrtc):
    nvrtc((FOLDER / file).read_text(), options, UNITS[file, options])


def wrong_elements(case, right, wrong):
    """How many elements are wrong when the kernel's source is changed."""
    text, arguments = (FOLDER / case.file).read_text(), case.arguments()
    assert right in text
    changed = RawModule(code=text.replace(right, wrong), options=case.options, name_expressions=case.kernels)
    after = case.run(changed, arguments, "cpu")
    return sum(case.errors(after[name], want) for name, want in case.expected(arguments).items())


def test_a_wrong_kernel_is_seen():
    case = next(case for case in CASES if case.name == "elementwise-vecAdd")
    assert wrong_elements(case, "A[i] + B[i]", "A[i] - B[i]") == 1000
    assert wrong_elements(case, "i < N", "i < N - 1") == 1  # NaN where nothing was written
    with pytest.raises(AssertionError, match="c: written out of bounds"):
        wrong_elements(case, "i < N", "i <= N")


def test_every_kernel_of_the_corpus_has_a_case():
    launched = {(case.file, name.split("<")[0]) for case in CASES for name in case.kernels}
    for path in FOLDER.glob("*.cu"):
        assert {name for file, name in launched if file == path.name} == set(kernels_of(path.read_text())), path.name


def kernels_of(text):
    """The names of the kernels that a source defines."""
    text = re.sub(r"__launch_bounds__\s*\((?:[^()]|\([^()]*\))*(?:\([^()]*\)[^()]*)*\)", "", text)
    return re.findall(r"__global__\s+void\s+(\w+)\s*\(", text)
