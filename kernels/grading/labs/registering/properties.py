"""Properties of what was observed of a registered operator: see `observed` for the facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kernels.grading.exercise import Property, Trial
from kernels.grading.properties import known_mistakes
from kernels.grading.python import torch_compile, triton_compile

_BY_NAME = "PyTorch passes inputs and output by these names: save(ctx, inputs, output)"
# What PyTorch says of a mistake, by a sign of it, and what to do.
ADVICE = {
    "must not also be an input": "what an operator returns is new, as the kernel's result is",
    "unexpected keyword argument 'inputs'": _BY_NAME,
    "unexpected keyword argument 'output'": _BY_NAME,
    "can only save variables": "ctx.save_for_backward is for tensors; numbers may be attributes of ctx",
    "to unpack (expected 1, got 0)": "ctx.saved_tensors has what save gave to ctx.save_for_backward, and PyTorch calls save "
    "if it is registered: setup_context=save",
    "incorrect number of gradients": "backward returns a tuple, one gradient for each argument in order; PyTorch counts one "
    "more than you wrote",
    "appears to not have been used": "backward returned None for x: its gradient is what launch_backward computes",
    "_() missing 1 required": "PyTorch leaves out an argument that is at its default: give it the same one here",
}


def fact_property(
    fact: str, name: str, stage: str, says: Callable[[object, Trial], str | None], hint: str = ""
) -> Property:
    """A property of a fact: what `says` makes of it is the message, with advice, of the first trial where there is one."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in (one for one in trials if fact in one.facts):
            if said := says(trial.facts[fact], trial):
                return triton_compile.advised(said, ADVICE, trial)
        return None

    return Property(name, broken, stage, hint)


def an_operator(name: str) -> Property:
    def says(operators: list[str], trial: Trial) -> str | None:
        launched = " and ".join(trial.facts["launched"]) or "nothing"
        return None if operators else f"the call launches {launched}, and no operator but PyTorch's own is called"

    hint = f'@torch.library.custom_op("course::{name}", mutates_args=…) above the function makes it one.'
    return fact_property("operators", "PyTorch sees an operator", "runs", says, hint)


def on_a_gpu() -> Property:
    def says(operators: list[str], trial: Trial) -> str | None:
        return f"{' and '.join(operators)} cannot be called on a GPU: no implementation for CUDA" if operators else None

    hint = "device_types says where an implementation may run. By default, everywhere: so can the kernel."
    return fact_property("no GPU", "it is there on a GPU, too", "right", says, hint)


def right(output: str, *cases: str, name: str, stage: str, hint: str, **likes: Callable) -> Property:
    return replace(known_mistakes.right(output, cases=cases, name=name, likes=likes, hint=hint), stage=stage)


def launched_once(name: str, kernels: Mapping[str, str]) -> Property:
    """kernels: what is to be launched, by the fact that says what was."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in (one for one in trials if one.sizes["M"]):  # without rows there is nothing to launch
            for fact, kernel in kernels.items():
                if (launched := trial.facts.get(fact, [kernel])) != [kernel]:
                    got = ", ".join(launched) or "no kernel"
                    whose = "the backward" if "backward" in fact else "a call"
                    return f"{whose} launches {got}, where {kernel}, once, would do\n(with {trial.where})"
        return None

    return Property(name, broken, "right")


def opcheck() -> Property:
    """`torch.library.opcheck` finds nothing in the operators of a call."""
    hint = "It calls the operator with and without values, and traces it with its backward, as the compiler would."
    return _tried("opcheck", fact_property("opcheck", "opcheck finds nothing", "costs", lambda found, _: found, hint))


def one_graph() -> Property:
    return _tried("break", replace(torch_compile.no_break(), stage="costs"))


def compiled_once() -> Property:
    hint = "A fake implementation that needs a size as a number ties the graph to it, and so does the backward's."
    return _tried("compilations", torch_compile.compiled_once("compiled once for all sizes", hint))


def _tried(fact: str, property: Property) -> Property:
    """Of the trials that were made of it, which are few, since they take long."""

    def broken(trials: Sequence[Trial]) -> str | None:
        made = [trial for trial in trials if fact in trial.facts]
        return property.broken(made) if made else "not tried: in some call the result was not quite the kernel's"

    return replace(property, broken=broken)


def kept(names: list[str], trial: Trial) -> str | None:
    if not names:
        return None
    return (
        f"from the forward to the backward it keeps {' and '.join(names)}, and the backward kernel needs no more than x"
    )


def schema(declared: set[str], changed: set[str], results: int) -> str | None:
    if missing := changed - declared:
        return (
            f"{', '.join(sorted(missing))} is changed, and the schema does not say so: a compiler may move the call, or "
            "leave it out, since its result is not used"
        )
    if spare := declared - changed:
        return (
            f"the schema says that {', '.join(sorted(spare))} is changed, and it is not: a compiler may copy "
            "it first, in case something reads it later"
        )
    return "the schema promises a result, but the result is in average: return nothing" if results else None


def backward_operator(operators: list[str], trial: Trial) -> str | None:
    if operators or not trial.sizes["M"]:
        return None
    if trial.facts["backward launched"]:
        return (
            "the backward launches its kernel itself: a compiler traces the backward as well, with tensors that have no "
            "memory"
        )
    return "the backward calls no operator but PyTorch's own: launch_backward is there to be registered"


def unnoticed(is_so: bool, trial: Trial) -> str | None:
    if not is_so:
        return None
    return (
        "x was changed in place after the forward, and the backward computed with the new values: no error, and a wrong "
        "gradient"
    )


def mixed(is_so: bool, trial: Trial) -> str | None:
    if not is_so:
        return None
    return (
        "the operator was called with x, then with other values and another eps, and then the first call's backward was run: "
        "its gradient is not that of the first"
    )
