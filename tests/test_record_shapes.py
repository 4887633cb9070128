"""Every form that the record holds goes through all that is driven by it: the check, the timing, the lens and the compilers."""

import pytest
import torch
from stored import counters, resources
from toys import TOYS

from kernels import lens
from kernels.case import Case
from kernels.check import check
from kernels.hardware import REFERENCE
from kernels.measure.compare import compare
from kernels.operation import Variant
from kernels.triton.launch import watched

# The toys run on a CPU, and there Triton must be the interpreter, which beside a GPU it is not.
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the toys need Triton's interpreter")
EACH = pytest.mark.parametrize("op", TOYS.values(), ids=TOYS.keys())


@EACH
def test_it_is_right(op):
    results = list(check(op))
    assert not [f"{result.variant} {result.case}: {result.failure}" for result in results if result.failure]
    assert len(results) == 16 and not any(result.skipped for result in results)


@EACH
def test_its_wrong_variant_is_rejected(op):
    failures = [result.failure for result in check(op, op.wrong) if result.failure]
    expected = {"cross_entropy": "lse: ", "argmax": "index: ", "dropout": "dx: ", "rope": "x: ", "quantize": "codes: "}
    assert failures and failures[-1].startswith(expected.get(op.name, "y: "))


@EACH
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_it_is_timed(op, direction):
    if direction == "backward" and not op.gradients:
        with pytest.raises(ValueError, match="says no backward_cost"):
            compare(op, op.cases["edge"][2], direction=direction)
        return
    rows = compare(op, op.cases["edge"][2], op.forward, "cpu", direction).rows
    assert [row.contestant for row in rows] == [*(variant.key for variant in op.forward), "torch", "copy"]
    assert all(row.max_error_ratio <= 1 for row in rows)
    wrong = op.wrong if direction == ("backward" if op.name == "dropout" else "forward") else ()
    for variant in wrong:
        with pytest.raises(ArithmeticError, match=f"{op.name} {variant.key} {direction}"):
            compare(op, op.cases["edge"][2], (variant,), "cpu", direction)


@EACH
def test_it_is_counted(op):
    inputs = op.inputs(op.cases["edge"][2], "cpu")
    assert lens.count(op.forward[0], **inputs).totals["bytes_requested"] > 0
    launches = lens.count(op.forward[1], **inputs)
    assert launches.totals["launches"] == 1 and launches.totals["bytes_requested"] > 0
    stored = [run.launches() for run in counters.runs(op).values()]
    assert all(len(run) == 1 and run[0].keys().isdisjoint({"error", "findings"}) for run in stored)
    assert len(stored) >= (2 if op.forward[1].level == 5 else 0)


@EACH
def test_it_is_compiled(op):
    if op.forward[1].level == 5:
        found = [compile() for compile in resources.cuda_kernels(op, REFERENCE, resources.cases(op)).values()]
        assert len(found) == 2 and all(said["spilled_bytes"] == 0 for _, said in found)
    else:
        seen = []
        with watched(lambda kernel, *launch: seen.append(kernel)):
            resources.plan(op, 4, REFERENCE, resources.cases(op))
        assert len(seen) == 5  # two edge cases with rows in bfloat16, and all others


def test_what_is_to_be_updated_must_be():
    """And what lies beside it must not."""
    op, case = TOYS["rope"], Case((2, 5, 3, 6), layout="rows")

    def judged(fn):
        return next(check(op, (Variant(1, "changed", fn, "", ()),), (case,))).failure

    def beside(x, cos, sin):
        op.forward[0](x, cos, sin)
        x.detach().as_strided((1,), (1,), 0).fill_(1)

    assert judged(op.forward[0].fn) is None
    assert judged(lambda **inputs: op.reference(**inputs)).startswith("x: ")
    assert judged(beside) == "it changed its input x, or memory beside it"
