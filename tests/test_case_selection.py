"""What `python -m kernels check` runs where it is not asked for all."""

from collections import Counter
from dataclasses import replace

import pytest

import kernels
from kernels.case_selection import LONG, MOST, selection
from kernels.machine import here
from kernels.operation import Case, Variant

DTYPES = ("float32", "float16", "bfloat16")
SPECIAL = [
    *(Case((5, width)) for width in (1, 2, 33, 1000)),
    Case((4, 8), layout="rows"),
    Case((4, 8), params={"eps": 0.1}),
]
CASES = [replace(case, dtype=dtype) for dtype in DTYPES for case in SPECIAL]
CPU = here("cpu")


def variant(level, name, unsupported=lambda case, machine: None):
    return Variant(level, name, lambda: None, "", (), unsupported=unsupported)


def pairs(variants, cases=CASES, machine=CPU):
    return [(case, one) for case, chosen in selection(cases, variants, machine) for one in chosen]


def special(case):
    return replace(case, dtype="float32")


def test_each_level_meets_each_special_case_once():
    found = pairs([variant(level, name) for level in (1, 2, 4, 5) for name in ("plain", "best")])
    for level in (1, 2, 4, 5):
        met = [str(special(case)) for case, one in found if one.level == level]
        assert sorted(met) == sorted(map(str, SPECIAL))


@pytest.mark.parametrize("many", range(20))
def test_level_3_meets_few_special_cases_from_all_over_the_list(many):
    cases = [Case((5, width), dtype) for dtype in DTYPES for width in range(many)]
    met = sorted(case.shape[1] for case, _ in pairs([variant(3, "only")], cases))
    assert len(met) == len(set(met)) <= MOST
    assert not many or len(met) >= min(many, 2) and met[0] == 0
    assert many < MOST or met[-1] >= many / 2


@pytest.mark.parametrize("rungs", [1, 2, 3, 6])
def test_dtypes_and_rungs_take_turns(rungs):
    cases = [Case((5, width), dtype) for width in range(1, 19) for dtype in DTYPES]
    met = Counter((case.dtype, one.name) for case, one in pairs([variant(4, str(n)) for n in range(rungs)], cases))
    assert len(met) == 3 * rungs
    assert set(met.values()) == {18 // (3 * rungs)}


def test_runs_are_the_same_and_a_case_comes_once_with_all_its_variants():
    variants = [variant(level, "only") for level in (1, 2, 4, 5)]
    chosen = selection(CASES, variants, CPU)
    assert chosen == selection(CASES, variants, CPU)
    assert len({str(case) for case, _ in chosen}) == len(chosen)


def test_a_rung_that_supports_the_case_is_taken_and_else_one_that_says_why_not():
    narrow = variant(4, "narrow", lambda case, machine: "too wide" if case.shape[-1] > 8 else None)
    assert {one.name for case, one in pairs([narrow, variant(4, "wide")]) if case.shape[-1] > 8} == {"wide"}
    assert [special(case) for case, _ in pairs([narrow])] == SPECIAL


def test_a_long_case_is_left_out_where_it_is_interpreted():
    long = [Case((1, LONG + 1))]
    assert [one.level for _, one in pairs([variant(1, "a"), variant(4, "b"), variant(5, "c")], long)] == [1]
    on_a_gpu = replace(CPU, device="cuda")
    assert [one.level for _, one in pairs([variant(1, "a"), variant(4, "b"), variant(5, "c")], long, on_a_gpu)] == [
        1,
        4,
        5,
    ]


@pytest.mark.parametrize("name", kernels.operations())
def test_every_rung_of_an_operation_that_runs_here_has_a_case(name):
    op = kernels.operation(name)
    cases = (*op.cases["edge"], *op.cases["model"])
    met = {one.key for case, one in pairs(op.variants, cases) if not one.unsupported(case, CPU)}
    assert met == {one.key for one in op.variants if any(not one.unsupported(case, CPU) for case in cases)}
