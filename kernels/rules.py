"""What follows from a signature: rules of levels 4 and 5, and what outputs and gradients look like if it does not say."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kernels.arguments import empty_contiguous, floating, for_kernels, like
from kernels.signature import Signature, picker


def kernel_schema(signature: Signature) -> Signature:
    """With the rules of levels 4 and 5, too: the first input with a gradient has a dtype that their kernels take.

    A backward that is given every input again holds them to the rules of the forward, and what comes in for outputs, or is
    saved of them, to the `shapes` of the signature. Gradients for which an operation has no rules look like what is saved
    first, such as x, or where nothing is saved like each other.
    """
    if not signature.gradients:
        return signature
    names, saved = signature.names, signature.save
    gradients = tuple(f"d{name}" for name in signature.differentiable)
    main, known = names.index(signature.gradients[0]), (*gradients, *saved, *signature.parameters)
    inputs = picker(known, names) if set(names) <= set(known) else None
    first = known.index(saved[0]) if saved else 0
    # Of each output where the backward finds its gradient, and itself.
    found = [[known.index(name) for name in (f"d{one}", one) if name in known] for one in signature.outputs]

    def validate(*args: Any) -> None:
        signature.validate(*args)
        for_kernels(names[main], args[main])

    def validate_backward(*args: Any) -> None:
        if inputs:
            validate(*inputs(args))
        if signature.validate_backward:
            signature.validate_backward(*args)
            return
        if signature.shapes and inputs:
            given = inputs(args)
            for one, places, (shape, dtype) in zip(signature.outputs, found, signature.shapes(*given), strict=True):
                for place in places:
                    like(known[place], args[place], shape, f"the forward's {one}", given[main], dtype=dtype)
            return
        floating(known[first], args[first])
        for_kernels(known[first], args[first])
        for name, gradient in zip(gradients, args, strict=False):
            like(name, gradient, args[first].shape, known[first], args[first])

    return replace(signature, validate=validate, validate_backward=validate_backward)


def empty_outputs(signature: Signature) -> Callable[..., Any]:
    """The shape rule: by default each output is contiguous and otherwise like the first parameter."""
    if signature.shapes:
        return signature.empty_outputs
    many = len(signature.outputs)
    return empty_contiguous_of([0] * many) if many else lambda *args: None


def empty_gradients(signature: Signature) -> Callable[..., Any]:
    """Of a backward: each gradient is contiguous and otherwise like its input, if that is saved, or like the gradient of what
    the input became, if it was updated, or else like the first gradient that comes in."""
    names = (*signature.differentiable, *signature.save)
    return empty_contiguous_of([names.index(name) if name in names else 0 for name in signature.gradients])


def empty_contiguous_of(places: list[int]) -> Callable[..., Any]:
    def rule(*args: Any) -> Any:
        found = tuple(None if args[place] is None else empty_contiguous(args[place]) for place in places)
        return found if len(found) > 1 else found[0]

    return rule
