"""Why a variant or a peer cannot run on a case on a machine: reasons that many of them share."""

from collections.abc import Callable

from kernels.case import Case
from kernels.hardware import TARGETS, has_feature
from kernels.machine import Machine

Reason = Callable[[Case, Machine], str | None]
"""(case, machine) → a sentence, or None where it can run."""


def never(case: Case, machine: Machine) -> str | None:
    """Nothing stands in its way."""
    return None


def needs_gpu(case: Case, machine: Machine) -> str | None:
    return "runs on a GPU only" if machine.device == "cpu" else None


def needs_compiler(case: Case, machine: Machine) -> str | None:
    """For what g++ or clang++ compiles on a CPU: CUDA C, and what Inductor makes."""
    if machine.device == "cpu" and machine.compiler is None:
        return "no C++ compiler: g++ or clang++ is needed"
    return None


def needs_interpreter(case: Case, machine: Machine) -> str | None:
    if machine.device == "cpu" and not machine.interpreting:
        return "on CPU tensors Triton runs only in its interpreter (TRITON_INTERPRET=1), and here it is the compiler"
    return None


def gelu_of_infinity(case: Case, machine: Machine) -> str | None:
    """For what calls PyTorch's GELU."""
    fails = machine.device == "cpu" and case.values == "nonfinite"
    return "on some CPUs PyTorch's GELU of an infinity is a NaN" if fails else None


def needs_feature(feature: str) -> Reason:
    """For kernels that use what only some targets have (kernels.hardware)."""
    first = next(target for target in TARGETS.values() if feature in target.features)

    def reason(case: Case, machine: Machine) -> str | None:
        if machine.capability is None:
            return f"needs a GPU with {feature}, which the CPU runtime does not have"
        if has_feature(machine.capability, feature):
            return None
        return f"needs a GPU with {feature}, which came with {first}"

    return reason


def first_of(*reasons: Reason) -> Reason:
    """The first reason that stands in the way."""
    return lambda case, machine: next(filter(None, (reason(case, machine) for reason in reasons)), None)
