"""Is it right: every variant, on every case, forward and gradients, against float64.

The rule. Inputs are rounded to the case's dtype first and then given to everyone. The errors of a variant and of the
baseline (torch's operator in the same dtype) are taken against the float64 reference:

- root mean square, per row and over the whole tensor: at most 2 × the baseline's;
- largest absolute error: at most 4 × the baseline's;
- either bound is at least unit · max(rms(reference), 1), so that a lucky baseline does not forbid rounding. The unit is
  eps(dtype) / 2, the rounding of a result, and 4 · eps for float32, whose arithmetic rounds at every step. For a single
  element, |reference| takes the place of the rms where it is larger: an outlier is rounded in
  proportion to itself;
- all zeros only where the bound by the baseline's error allows them. The floor is absolute, for results that are small by
  cancellation, and is larger than a whole result that is small by nature, such as a softmax over many columns;
- NaN and infinities exactly where the reference, rounded to the dtype, has them.

An *error ratio* is an error divided by its bound: 1 and less is right. While a variant runs, memory that it allocates
is filled with NaN, so an element that it never wrote is found.
"""

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from kernels.cuda.order import order
from kernels.layouts import clone_memory, lay_out, same_memory
from kernels.machine import here
from kernels.operation import Case, Operation, Variant


@dataclass(frozen=True)
class Result:
    """What the check found for one variant on one case.

    Args:
        ratio: the largest error ratio over output and gradients; infinite for a wrong shape, NaN or exception.
        failure: what is wrong, in words, or None.
        skipped: why the variant did not run, or None.
    """

    operation: str
    variant: str
    case: Case
    ratio: float = 0.0
    failure: str | None = None
    skipped: str | None = None


def check(
    op: Operation,
    variants: Sequence[Variant] | None = None,
    cases: Sequence[Case] | None = None,
    device: str = "cpu",
) -> Iterator[Result]:
    """Check variants (all, forward and backward) on cases (edge and model ones); one result for each pair, as it is known."""
    machine = here(device)
    for case in cases if cases is not None else (*op.cases["edge"], *op.cases["model"]):
        truth = None
        for variant in variants if variants is not None else op.variants:
            if reason := variant.unsupported(case, machine):
                yield Result(op.name, variant.key, case, skipped=reason)
                continue
            truth = truth or Truth(op, case, op.inputs(case, device))
            yield truth.judge(variant)


def output_gradient(case: Case, output: torch.Tensor) -> torch.Tensor:
    """A gradient for `output`: normal random numbers of the case's seed, dtype and layout, on the output's device."""
    random = torch.Generator(output.device).manual_seed(case.seed + 1)
    dy = torch.randn(output.shape, generator=random, device=output.device)
    return lay_out(dy.to(getattr(torch, case.dtype)), case.layout)


class Truth:
    """The reference and the baseline of an operation on one case, against which variants are judged.

    Args:
        inputs: those of the case, or any others of its dtype.
        gradients: whether to judge the gradients too.
    """

    def __init__(self, op: Operation, case: Case, inputs: dict, gradients: bool = True) -> None:
        self.op, self.case, self.inputs = op, case, inputs
        wanted = op.gradients if gradients else ()
        self.gradients = [name for name in wanted if isinstance(inputs[name], torch.Tensor)]
        exact = {
            name: value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
            for name, value in self.inputs.items()
        }
        output = op.reference(**exact)
        self.dy = output_gradient(case, output)
        self.reference = self._results(op.reference, exact, self.dy.double())
        self.baseline = self._results(op.baseline, self.inputs, self.dy)
        self.dtype = getattr(torch, case.dtype)

    def _results(self, fn: Callable, inputs: dict, dy: torch.Tensor) -> dict[str, torch.Tensor]:
        """The output and the gradients by name: y, dx, dweight …"""
        # detach() keeps strides; a variant must meet the layout that the case asks for.
        inputs = {
            name: value.detach().requires_grad_(name in self.gradients) if isinstance(value, torch.Tensor) else value
            for name, value in inputs.items()
        }
        y = fn(**inputs)
        if not self.gradients:
            return {"y": y}
        gradients = torch.autograd.grad(y, [inputs[name] for name in self.gradients], dy, allow_unused=True)
        return {"y": y.detach()} | {f"d{name}": g for name, g in zip(self.gradients, gradients, strict=True)}

    def judge(self, variant: Variant) -> Result:
        """Run a variant and compare its output and gradients with the reference.

        CUDA C on a CPU runs twice, the second time with its blocks and threads in a random order: a race that is right in
        the order of their numbers is wrong in another.
        """
        result = self._judge(variant)
        if variant.level < 5 or self.dy.is_cuda or result.failure:
            return result
        with order(self.case.seed):
            again = self._judge(variant)
        return replace(again, failure=f"in another order of threads, {again.failure}") if again.failure else result

    def _judge(self, variant: Variant) -> Result:
        result = {"operation": self.op.name, "variant": variant.key, "case": self.case}
        # A variant gets memory of its own: what it breaks must not fall on those after it.
        given = {name: clone_memory(v) if isinstance(v, torch.Tensor) else v for name, v in self.inputs.items()}
        given_dy = clone_memory(self.dy)
        try:
            with nan_filled_memory(), quiet(), really_compiled():
                outputs = self._results(variant.fn, given, given_dy)
        except Exception as error:  # a variant may fail in any way; each is a finding about it
            return Result(**result, ratio=math.inf, failure=f"raised {type(error).__name__}: {error}")
        for name, value in (self.inputs | {"dy": self.dy}).items():
            passed = given_dy if name == "dy" else given[name]
            if isinstance(value, torch.Tensor) and not same_memory(value, passed):
                return Result(**result, ratio=math.inf, failure=f"it changed its input {name}, or memory beside it")
        worst, failures = 0.0, []
        for name, reference in self.reference.items():
            ratio, failure = compare(outputs[name], reference, self.baseline[name], self.dtype)
            worst = max(worst, ratio)
            if failure:
                failures.append(f"{name}: {failure}")
        return Result(**result, ratio=worst, failure="; ".join(failures) or None)


def compare(
    got: torch.Tensor | None, reference: torch.Tensor, baseline: torch.Tensor, dtype: torch.dtype
) -> tuple[float, str | None]:
    """The largest error ratio of `got`, and what is wrong with it, or None. The rule stands at the head of the file."""
    if got is None:
        return math.inf, "there is none: the gradient does not flow"
    if got.shape != reference.shape or got.dtype != dtype:
        return math.inf, f"got {got.dtype} {tuple(got.shape)}, expected {dtype} {tuple(reference.shape)}"
    if reference.numel() == 0:
        return 0.0, None
    expected = reference.to(dtype)
    for what, of in (("NaN", torch.isnan), ("+inf", torch.isposinf), ("-inf", torch.isneginf)):
        if (wrong := of(got) != of(expected)).any():
            return math.inf, f"{what} in the wrong places, {int(wrong.sum())} of them, first at {_first(wrong)}"

    finite = torch.isfinite(expected)
    zero = torch.zeros((), dtype=torch.float64, device=got.device)
    error = torch.where(finite, got.double() - reference, zero)
    allowed = torch.where(finite, baseline.double() - reference, zero).nan_to_num(0.0, 0.0, 0.0)
    size = torch.where(finite, reference, zero)

    if not got.any() and 2 * _rms(allowed) < _rms(size):
        return math.inf, f"it is all zeros, expected an rms of {float(_rms(size)):.3g}"

    floor = (4 if dtype == torch.float32 else 0.5) * torch.finfo(dtype).eps
    errors = {
        "rms of a row": (_rms(error, -1), torch.maximum(2 * _rms(allowed, -1), floor * _rms(size, -1).clamp(min=1))),
        "rms": (_rms(error), torch.maximum(2 * _rms(allowed), floor * _rms(size).clamp(min=1))),
        "largest error": (
            error.abs(),
            torch.maximum(4 * allowed.abs().max(), floor * torch.maximum(size.abs(), _rms(size).clamp(min=1))),
        ),
    }
    ratios = {what: (one / bound) for what, (one, bound) in errors.items()}
    what = max(ratios, key=lambda what: float(ratios[what].max()))
    ratio = float(ratios[what].max())
    if ratio <= 1:
        return ratio, None
    worst = _first(ratios[what] == ratios[what].max()) if ratios[what].dim() else ()
    one, bound = (float(values.expand(ratios[what].shape)[worst]) for values in errors[what])
    at = _first(error.abs() == error.abs().max())
    return ratio, (
        f"{what} is {one:.3g}, {ratio:.3g} × its bound of {bound:.3g}; "
        f"furthest off is {at}: got {float(got[at]):.6g}, expected {float(reference[at]):.6g}"
    )


def _rms(values: torch.Tensor, dim: int | None = None) -> torch.Tensor:
    return values.square().mean(dim).sqrt()


def _first(mask: torch.Tensor) -> tuple[int, ...]:
    return tuple(mask.nonzero()[0].tolist())


@contextlib.contextmanager
def nan_filled_memory() -> Iterator[None]:
    """Within it, torch.empty gives NaN."""
    before, fill = torch.get_deterministic_debug_mode(), torch.utils.deterministic.fill_uninitialized_memory
    # The filling works only while deterministic algorithms are asked for; "warn" keeps the others running. (The function
    # use_deterministic_algorithms does the same, and imports the compiler into every process.)
    torch.set_deterministic_debug_mode("warn")
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)
        torch.utils.deterministic.fill_uninitialized_memory = fill


def really_compiled() -> contextlib.AbstractContextManager:
    """Within it, torch.compile compiles for every new kind of input; its default is to give up after 8, silently."""
    return torch._dynamo.config.patch(recompile_limit=1000, fail_on_recompile_limit_hit=True)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings that the check itself provokes: TorchScript's age, deterministic mode, NaN in NumPy."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.jit.*deprecated.*")
        warnings.filterwarnings("ignore", message=".*deterministic.*")
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="triton.runtime.interpreter")
        yield
