"""The inputs that reductions are checked and timed on: each kind along each dimension, by turns."""

from dataclasses import replace
from itertools import product
from typing import Any

from kernels.operation import Case
from kernels.row_cases import DTYPES, each, row_cases

KINDS = [{"kind": kind, "dim": dim} for kind, dim in product(("sum", "mean", "max"), (-1, 0))]
USUAL = row_cases(values=("offset", "constant", "nonfinite", "masked"), edge=each((1_000, 5), (9_000, 2)))


def by_turns(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    """Shapes in their three dtypes have a kind; what is special in layout or values has every kind, each in one dtype."""
    plain = [case for case in cases if (case.layout, case.values) == ("contiguous", "realistic")]
    special = [case for case in cases if case not in plain and case.dtype == "float32"]
    found = [replace(case, params=KINDS[i // 3 % 6]) for i, case in enumerate(plain)]
    turns = ((case, kind, n + k) for n, case in enumerate(special) for k, kind in enumerate(KINDS))
    found += [replace(case, params=kind, dtype=DTYPES[turn % 3]) for case, kind, turn in turns]
    # Of nothing there is no largest.
    return tuple(case for case in found if defined(case.shape, **case.params))


def defined(shape: tuple[int, ...], kind: Any, dim: Any) -> bool:
    return kind != "max" or shape[dim] > 0


CASES: dict[str, tuple[Case, ...]] = USUAL | {
    "edge": by_turns(USUAL["edge"]),
    "model": tuple(replace(case, params=kind) for kind in KINDS for case in USUAL["model"]),
    "bench": tuple(Case((32_768, 4_096), "bfloat16", params=kind) for kind in KINDS),
}
