"""What the tests of one operation share: where they run, and its rungs, of which those that cannot run there are skipped."""

from collections.abc import Sequence

import pytest
import torch

from kernels.machine import here
from kernels.operation import Operation, Variant

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def each_rung(op: Operation, variants: Sequence[Variant] | None = None) -> pytest.MarkDecorator:
    """A test for each `variant`, all or these; one that cannot run a model's case on DEVICE is skipped, and says why."""
    found = op.variants if variants is None else variants
    reasons = {one.key: one.unsupported(op.cases["model"][0], here(DEVICE)) for one in found}
    marks = {key: [pytest.mark.skip(reason=reason)] if reason else [] for key, reason in reasons.items()}
    return pytest.mark.parametrize("variant", [pytest.param(one, id=one.key, marks=marks[one.key]) for one in found])
