"""Is it right: every variant, on every case, forward and gradients, against float64.

Inputs are rounded to the case's dtype first and then given to everyone. What a variant gives is held against the float64
reference by the rule of `kernels.tolerance`. While a variant runs, memory that it allocates is filled with NaN, so an element
that it never wrote is found; and it must leave its inputs as they were, but for those that the operation updates.
"""

import contextlib
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from kernels.call import Call
from kernels.case import Case
from kernels.cuda.order import order
from kernels.layouts import clone_memory, same_memory
from kernels.machine import here
from kernels.operation import Operation, Tensors, Variant
from kernels.tolerance import compare


@dataclass(frozen=True)
class Result:
    """What the check found for one variant on one case.

    Args:
        ratio: the largest error ratio over outputs and gradients; infinite for a wrong shape, NaN or exception.
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


class Truth:
    """The reference and the baseline of an operation on one case, against which variants are judged.

    Args:
        inputs: those of the case, or any others of its dtype.
        gradients: whether to judge the gradients too.
    """

    def __init__(self, op: Operation, case: Case, inputs: dict, gradients: bool = True) -> None:
        self.op, self.case = op, case
        wanted = op.differentiable(inputs) if gradients else []
        exact = {name: v.double() if _is_floating(v) else v for name, v in inputs.items()}
        self.incoming = op.incoming(case, op.results(op.baseline, inputs)) if wanted else {}
        incoming = {name: dy.double() for name, dy in self.incoming.items()}
        pure = replace(op, updates=())  # the reference and the baseline return what the others update
        self.dtypes = {output.name: output.torch_dtype(case) for output in op.outputs}
        self.dtypes |= {f"d{name}": inputs[name].dtype for name in wanted}
        self.gradients = wanted
        expected = pure.results(op.reference, exact, wanted, incoming)
        baseline = self._judged(pure.results(op.baseline, inputs, wanted, self.incoming), inputs)
        if second := op.second_baseline.get(case.dtype):
            other = self._judged(pure.results(second, inputs, wanted, self.incoming), inputs)
            baseline = {name: _further_off(one, other[name], expected[name]) for name, one in baseline.items()}
        self.call = Call(inputs, expected, baseline, updated=op.updates)
        self.rounded = pure.results(op.rounded, exact) if op.rounded else {}

    def judge(self, variant: Variant) -> Result:
        """Run a variant and compare its outputs and gradients with the reference.

        CUDA C on a CPU runs twice, the second time with its blocks and threads in a random order: a race that is right in
        the order of their numbers is wrong in another.
        """
        result = self._judge(variant)
        on_gpu = any(isinstance(v, torch.Tensor) and v.is_cuda for v in self.call.args.values())
        if variant.level < 5 or on_gpu or result.failure:
            return result
        with order(self.case.seed):
            again = self._judge(variant)
        return replace(again, failure=f"in another order of threads, {again.failure}") if again.failure else result

    def _judge(self, variant: Variant) -> Result:
        result = {"operation": self.op.name, "variant": variant.key, "case": self.case}
        # A variant gets memory of its own: what it breaks must not fall on those after it.
        given, incoming = _copies(self.call.args), _copies(self.incoming)
        try:
            with nan_filled_memory(), quiet(), really_compiled():
                results = self.op.results(variant.fn, given, self.gradients, incoming)
        except Exception as error:  # a variant may fail in any way; each is a finding about it
            return Result(**result, ratio=math.inf, failure=f"raised {type(error).__name__}: {error}")
        ratio, failure = self.compared(results)  # before what was updated is put back
        for before, after, prefix in ((self.call.args, given, ""), (self.incoming, incoming, "d")):
            for name, value in before.items():
                if not isinstance(value, torch.Tensor):
                    continue
                if not prefix and name in self.op.updates:
                    after[name].detach().copy_(value)  # then only what lies beside it can differ
                if not same_memory(value, after[name]):
                    failure = f"it changed its input {prefix}{name}, or memory beside it"
                    return Result(**result, ratio=math.inf, failure=failure)
        return Result(**result, ratio=ratio, failure=failure)

    def compared(self, results: Tensors) -> tuple[float, str | None]:
        """The largest error ratio of these outputs and gradients by name, and what is wrong with them, or None."""
        ratios, failures = [0.0], []
        for name, value in results.items():
            if self.op.decode and isinstance(value, torch.Tensor) and value.dtype != self.dtypes[name]:
                failures.append(f"{name}: got {value.dtype}, expected {self.dtypes[name]}")
        for name, value in ({} if failures else self._judged(results, self.call.args)).items():
            dtype = value.dtype if self.op.decode else self.dtypes[name]
            for expected in (self.call.expected[name], self.rounded.get(name)):
                if expected is not None:
                    ratio, failure = compare(value, expected, self.call.baseline[name], dtype)
                    ratios.append(ratio)
                    failures += [f"{name}: {failure}"] if failure else []
        return math.inf if failures and ratios == [0.0] else max(ratios), "; ".join(failures) or None

    def _judged(self, results: Tensors, inputs: dict) -> Tensors:
        """What is judged of results: themselves, or what they stand for."""
        return self.op.decode(results, inputs) if self.op.decode else results


def _further_off(one: torch.Tensor, other: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Of each element the value that is further from the one expected."""
    return torch.where((one.double() - expected).abs() > (other.double() - expected).abs(), one, other)


def _is_floating(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _copies(values: Mapping[str, object]) -> dict[str, object]:
    return {name: clone_memory(v) if isinstance(v, torch.Tensor) else v for name, v in values.items()}


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
