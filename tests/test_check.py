"""The check, and the test of the check: right kernels pass, wrong ones do not."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

import kernels
from kernels.check import Truth, check
from kernels.machine import here
from kernels.operation import LEVELS, Case, Variant
from kernels.ops.matmul.in_order import in_order as matmul_in_order
from kernels.ops.rms_norm import triton_forward
from kernels.ops.softmax.in_order import in_order as softmax_in_order
from kernels.tolerance import _row_allowance, compare, rms_of_rows, unit
from kernels.wrong import edited

OPERATIONS = [kernels.operation(name) for name in kernels.operations()]
DEFAULTS = [pytest.param(op, v, id=f"{op.name}-{v.key}") for op in OPERATIONS for v in map(op.default, LEVELS)]
# The best backward rung is the default's own function.
RUNGS = [
    pytest.param(op, v, id=f"{op.name}-{v.key}")
    for op in OPERATIONS
    for v in op.variants
    if v.fn not in [op.default(level).fn for level in LEVELS]
]
WRONG = [pytest.param(op, v, id=f"{op.name}-{v.key}") for op in OPERATIONS for v in op.wrong]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WIDE, WIDEST = 20_000, 50_000  # columns from which a case takes a second, and ten, on a CPU


def judge(op, variant, cases):
    results = list(check(op, (variant,), cases, device=DEVICE))
    wrong = [f"{result.case}: {result.failure}" for result in results if result.failure]
    assert not wrong, "\n".join(wrong)
    if all(result.skipped for result in results):
        pytest.skip(f"{variant.key}: { {result.skipped for result in results} }")
    assert sum(not result.skipped for result in results) >= 0.6 * len(cases)


def all_cases(op):
    return *op.cases["edge"], *op.cases["model"]


def in_one_dtype(op, variant):
    """A third of the cases: each shape with one dtype, which differs from shape to shape and from rung to rung."""
    turn = op.variants.index(variant)
    return [case for index, case in enumerate(all_cases(op)) if (index // 3 + index + turn) % 3 == 0]


@pytest.mark.quick
@pytest.mark.parametrize(("op", "variant"), DEFAULTS)
def test_two_cases_of_a_level(op, variant):
    """A plain one, and one in another dtype that is laid out otherwise or has values that are not usual."""
    small = [case for case in all_cases(op) if 100 <= math.prod(case.shape) < 10_000]
    other = (case for case in small if (case.layout, case.values) != ("contiguous", "realistic"))
    judge(op, variant, [small[0], next(case for case in other if case.dtype != small[0].dtype)])


@pytest.mark.parametrize(("op", "variant"), DEFAULTS)
def test_what_a_user_gets_is_right(op, variant):
    cases = [case for case in in_one_dtype(op, variant) if case.shape[-1] < WIDEST]
    judge(op, variant, cases[::4] if variant.level == 3 else cases)  # level 3 compiles anew for each


@pytest.mark.parametrize(("op", "variant"), RUNGS)
def test_every_rung_is_right(op, variant):
    cases = [case for case in in_one_dtype(op, variant) if case.shape[-1] < WIDE]
    judge(op, variant, [case for i, case in enumerate(cases) if i % 2 == 0 or case.values != "realistic"])


@pytest.mark.slow
@pytest.mark.parametrize(("op", "variant"), [*DEFAULTS, *RUNGS])
def test_every_variant_is_right_on_every_case(op, variant):
    """Of level 3, which compiles anew for each, on a tenth: `kernels check --all` takes them all."""
    judge(op, variant, all_cases(op)[:: 10 if variant.level == 3 else 1])


@pytest.mark.parametrize(("op", "variant"), WRONG)
def test_every_wrong_variant_is_rejected(op, variant):
    if reason := variant.unsupported(op.cases["edge"][0], here(DEVICE)):
        pytest.skip(reason)
    # Not by crashing, which would test nothing, and by the output, unless the output is right and a gradient is not.
    names = (
        [f"d{name}" for name in op.gradients] if variant.name.startswith("gradient-") else [o.name for o in op.outputs]
    )
    expected = tuple(f"{name}: " for name in names)
    failures = []
    for result in check(op, (variant,), sorted(all_cases(op), key=lambda case: math.prod(case.shape)), DEVICE):
        if result.failure:
            failures.append(result.failure)
            if result.failure.removeprefix("in another order of threads, ").startswith(expected):
                return
    pytest.fail(f"not rejected, or for another reason: {failures[:3]}")


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_every_operation_has_six_wrong_variants(op):
    assert len(op.wrong) >= 6


@pytest.mark.parametrize(
    "op",
    [op for op in OPERATIONS if any(one.torch_dtype(op.cases["model"][0]).is_floating_point for one in op.outputs)],
    ids=lambda op: op.name,
)
def test_no_case_accepts_zeros(op):
    """A bound so wide that zeros pass would accept anything: every result that is not zero itself must reject them."""
    judged = 0
    for case in (*op.cases["edge"], *op.cases["model"]):
        truth = Truth(op, case, op.inputs(case, "cpu"))
        for name, reference in truth.call.expected.items():
            if not reference.is_floating_point():
                continue  # integers are compared exactly
            # Some are zero by mathematics: what multiplies a row without spread, and, but for eps, the gradient of rows of
            # two columns, which normalise to plus and minus 1.
            zero = not float(reference.nan_to_num().abs().max()) > 1e-9 if reference.numel() else True
            if not zero and not (name == "dx" and case.shape[-1] == 2):
                zeros = torch.zeros(reference.shape, dtype=truth.dtypes[name])
                ratio, failure = compare(zeros, reference, truth.call.baseline[name], truth.dtypes[name])
                assert failure, f"{case} {name}: zeros have an error ratio of {ratio}"
                judged += 1
    assert judged > 100


def test_a_triton_kernel_is_edited_in_its_source():
    op, x = kernels.operation("rms_norm"), torch.ones(3, 16, device=DEVICE)
    if reason := op["triton"].unsupported(op.cases["model"][0], here(DEVICE)):
        pytest.skip(reason)
    rung = partial(triton_forward.run, triton_forward.by_rows)
    assert torch.equal(edited(rung, "tl.cast(N, tl.float32)", "tl.cast(4 * N, tl.float32)")(x, None, 0.0), 2 * x)
    assert torch.equal(rung(x, None, 0.0), x)
    with pytest.raises(ValueError, match="not in the source of rms_norm_rows_kernel"):
        edited(rung, "tl.cast(M, tl.float32)", "1.0")(x, None, 0.0)


REFERENCE = torch.linspace(-2, 2, 64, dtype=torch.float64).reshape(4, 16)


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (None, "gradient does not flow"),
        (REFERENCE[:3].float(), "expected torch.float32 (4, 16)"),
        (REFERENCE.half(), "got torch.float16"),
        (REFERENCE.float().index_fill(0, torch.tensor([1]), math.nan), "NaN in the wrong places, 16"),
        (REFERENCE.float().index_fill(1, torch.tensor([2]), math.inf), "+inf in the wrong places"),
        (REFERENCE.float() + 1e-5, "largest error"),
        (REFERENCE.float().roll(1), "× its bound of"),
    ],
    ids=["none", "shape", "dtype", "nan", "inf", "offset", "shifted"],
)
def test_compare_names_what_is_wrong(got, words):
    ratio, failure = compare(got, REFERENCE, REFERENCE.float(), torch.float32)
    assert ratio > 1
    assert words in failure


@pytest.mark.parametrize(("usual", "counts"), [(0.5, 0.5), (100, 1)], ids=["usual", "where most rows cancel"])
def test_a_row_may_be_off_as_rows_usually_are_but_by_a_unit_at_most(usual, counts):
    """In units, relative to the row; the baseline happens to be exact in the first."""
    of = unit(torch.bfloat16)
    size = torch.rand(64, 128, dtype=torch.float64) + 0.5
    allowed = usual * of * size
    allowed[0] = 0
    found = _row_allowance(allowed, size, torch.bfloat16) / rms_of_rows(size)
    assert found[0].item() == pytest.approx(counts * of)
    assert found[1:].tolist() == pytest.approx([usual * of] * 63)


def test_compare_accepts_rounding():
    assert compare(REFERENCE.float(), REFERENCE, REFERENCE.float(), torch.float32)[1] is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "wrong",
    [lambda y: 1.02 * y, lambda y: 1.005 * y, lambda y: y.bfloat16() + y.abs().bfloat16() * 2**-8],
    ids=["2%", "0.5%", "rounded-up"],
)
def test_half_precision_is_held_to_its_rounding(dtype, wrong):
    reference = torch.randn(64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert compare(reference.to(dtype), reference, reference.to(dtype), dtype)[1] is None
    assert compare(wrong(reference).to(dtype), reference, reference.to(dtype), dtype)[1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_small_result_of_a_half_type_is_judged_by_its_size(dtype):
    """Gradients are often a hundredth or less: 3 % off is wrong, a rounding that the baseline happens to lack is not."""
    reference = 1e-2 * torch.randn(64, 256, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert compare(reference.to(dtype), reference, reference, dtype)[1] is None
    assert compare((1.03 * reference).to(dtype), reference, reference.to(dtype), dtype)[1]
    cancelled = reference.index_fill(
        0, torch.tensor([3]), 0
    )  # of one row float32's error is left, of terms that cancel
    left = cancelled.index_fill(0, torch.tensor([3]), torch.finfo(dtype).eps * 1e-2)
    assert compare(left.to(dtype), cancelled, cancelled.to(dtype), dtype)[1] is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_zeros_are_wrong_however_small_the_result(dtype):
    scores = torch.randn(4, 32_768, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    reference = scores.softmax(-1)
    right, zeros = reference.to(dtype), torch.zeros(reference.shape, dtype=dtype)
    assert compare(right, reference, right, dtype)[1] is None
    assert "all zeros" in compare(zeros, reference, right, dtype)[1]
    # What the baseline makes noise of may be zero.
    noise = 1e-9 * scores
    assert compare(zeros, 1e-17 * scores, noise.to(dtype), dtype)[1] is None
    assert compare(zeros, 0 * scores, noise.to(dtype), dtype)[1] is None


@pytest.mark.parametrize("sign", [1, -1])
def test_infinities_keep_their_sign(sign):
    reference = REFERENCE.clone()
    reference[1, 1] = sign * math.inf
    assert compare(reference.float(), reference, reference.float(), torch.float32)[1] is None
    assert "inf in the wrong places" in compare((-reference).float(), reference, reference.float(), torch.float32)[1]


def test_each_of_the_three_bounds_is_held():
    """Errors made so that only one bound sees them: of one element, of one row, of the whole."""
    random = torch.Generator().manual_seed(0)
    reference = torch.randn(1000, 1000, dtype=torch.float64, generator=random)
    noise = torch.randn(reference.shape, dtype=torch.float64, generator=random)
    baseline = reference + 1e-5 * noise  # errors far above float32's own
    assert compare(baseline.float(), reference, baseline, torch.float32)[1] is None
    one = baseline.clone()
    one[5, 5] = reference[5, 5] + 5 * 1e-5 * float(noise.abs().max())
    whole = reference + 1e-5 * noise.sign() * noise.abs().clamp(max=2.2).add(1.3)
    for got, what in ((one, "largest error is"), (whole, "rms")):
        _, failure = compare(got.float(), reference, baseline, torch.float32)
        assert failure, what
        assert failure.startswith(what), failure


def test_one_bad_row_among_many_is_found():
    """A row may not hide in the average of the tensor, also where no element of it stands out."""
    reference = torch.randn(10_000, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    baseline = reference + 1e-6 * torch.randn(reference.shape, dtype=torch.float64)
    got = baseline.clone()
    got[17] += 2.5e-6
    ratio, failure = compare(got.float(), reference, baseline, torch.float32)
    assert failure.startswith("rms of a row is"), failure


@pytest.mark.parametrize("columns", [1, 3])
def test_short_rows_are_held_together_with_their_neighbours(columns):
    """Of one element the baseline's error may be none at all, which is chance; a bad stretch of rows is found all the same."""
    random = torch.Generator().manual_seed(0)
    reference = torch.randn(1000, columns, dtype=torch.float64, generator=random)
    noise, other = (1e-5 * torch.randn(reference.shape, dtype=torch.float64, generator=random) for _ in range(2))
    baseline, got = reference + noise, reference + other
    assert compare(got.float(), reference, baseline, torch.float32)[1] is None
    got[-64:] += 2.5e-5
    assert compare(got.float(), reference, baseline, torch.float32)[1].startswith("rms of a row is")


def test_a_changed_input_is_found():
    op = kernels.operation("layer_norm")

    def forward(x, weight, bias, eps=1e-5):
        y = op["native"](x, weight, bias, eps)
        x.detach().mul_(2)
        return y

    variant = Variant(1, "changes-its-input", forward, "", ())
    first, second = check(op, (variant, op["native"]), (Case((4, 8)),))
    assert "changed its input x" in first.failure
    assert second.failure is None, "what one variant breaks must not fall on the next"


def test_a_changed_gap_and_a_changed_gradient_are_found():
    op = kernels.operation("layer_norm")

    class DoublesDy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y):
            return y.clone()

        @staticmethod
        def backward(ctx, dy):
            return dy.mul_(2) / 2

    def writes_beside(x, weight, bias, eps=1e-5):
        x.detach().as_strided((1,), (1,), 0).fill_(0)  # before the first element of x
        return op["native"](x, weight, bias, eps)

    def doubles_dy(x, weight, bias, eps=1e-5):
        return DoublesDy.apply(op["native"](x, weight, bias, eps))

    for fn, word in ((writes_beside, "input x"), (doubles_dy, "input dy")):
        (result,) = check(op, (Variant(1, "w", fn, "", ()),), (Case((4, 8), layout="rows"),))
        assert word in result.failure


def test_an_unwritten_element_is_found():
    op = kernels.operation("layer_norm")
    variant = Variant(1, "unwritten", lambda x, weight, bias, eps=1e-5: x * 0 + torch.empty(x.shape), "", ())
    (result,) = check(op, (variant,), (Case((4, 8)),))
    assert "NaN in the wrong places" in result.failure


def test_what_cannot_run_is_skipped_with_its_reason():
    op = kernels.operation("layer_norm")
    variant = Variant(4, "never", lambda **inputs: None, "", (), unsupported=lambda case, machine: "not today")
    (result,) = check(op, (variant,), (Case((4, 8)),))
    assert result.skipped == "not today"


def reversed_softmax(x):
    return softmax_in_order(x.flip(-1)).flip(-1)


def reversed_matmul(x, w, bias=None, activation="none"):
    return matmul_in_order(x.flip(-1), w.flip(-2), bias, activation)


@pytest.mark.parametrize("name, fn", [("softmax", reversed_softmax), ("matmul", reversed_matmul)])
def test_a_lucky_baseline_does_not_forbid_another_order_of_additions(name, fn):
    op = kernels.operation(name)
    case = replace(op.cases["model"][0], seed=1)
    assert case.dtype == "float32"
    lucky = replace(op, baseline=lambda **inputs: op.reference(**inputs).float())
    right = Variant(1, "reversed", fn, "adds from the last term to the first", ())
    inputs = op.inputs(case, "cpu")
    assert "its bound of" in Truth(replace(lucky, second_baseline={}), case, inputs).judge(right).failure
    assert Truth(lucky, case, inputs).judge(right).failure is None
