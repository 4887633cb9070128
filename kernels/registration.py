"""How kernels become PyTorch operators: from a schema, with a shape rule and a gradient.

`torch.ops.kernels.<name>` then works under autograd and inside torch.compile(fullgraph=True), and its backward is an operator
of its own, `torch.ops.kernels.<name>_backward`. On the way to an operator written in Python, PyTorch's dispatcher spends
several microseconds on asking who else wants to see the call: a compiler, a mode, a transform, autograd. The function that
`register` returns asks for itself, in a fraction of one, and where no one is watching it calls the kernel.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from kernels.arguments import empty_contiguous
from kernels.operation import Variant
from kernels.signature import Signature, picker

Rungs = tuple[Variant, ...]
# What is no tensor, and tensors with memory of their own: no fake tensors, no subclasses.
PLAIN = frozenset((torch.Tensor, torch.nn.Parameter, type(None), bool, int, float, str, tuple, list))


def join(signature: Signature, name: str, forward: Rungs, backward: Rungs = ()) -> tuple[Rungs, Rungs]:
    """The two ladders of a level, of bare kernels, made differentiable; the last rungs become `torch.ops.kernels.<name>`.

    Each rung of `forward` gets the last backward, and each of `backward` the last forward.
    """
    best, best_backward = forward[-1].fn, backward[-1].fn if backward else None
    default = register(signature, name, best, best_backward)
    return (
        (
            *(replace(rung, fn=differentiable(signature, rung.fn, best_backward)) for rung in forward[:-1]),
            replace(forward[-1], fn=default),
        ),
        (
            *(replace(rung, fn=differentiable(signature, best, rung.fn)) for rung in backward[:-1]),
            *(replace(rung, fn=default) for rung in backward[-1:]),
        ),
    )


def register(
    signature: Signature, name: str, forward: Callable, backward: Callable | None = None
) -> Callable[..., Any]:
    """Register bare kernels as `torch.ops.kernels.<name>` and `<name>_backward`.

    Returns the differentiable function for eager use, torch.compile and torch.func.
    """
    kernel = counting_updates(signature, forward)

    def checked(function):
        def call(*args):  # the dispatcher leaves out what is as its default
            args = signature.bind(args, {})
            signature.validate(*args)
            return function(*args)

        return call

    def checked_backward(*args):
        signature.validate_backward(*args)
        return backward(*args)

    def below_autograd(*args):
        with torch._C._AutoDispatchBelowAutograd():
            return op(*args)

    op = define(name, signature.schema, checked(kernel), checked(signature.shape_rule))
    if backward is None:
        return public(signature, lambda *args: (kernel if unwatched(args) else op)(*args), op)
    rule = signature.backward_shape_rule or like_inputs(signature)
    backward_op = define(f"{name}_backward", signature.backward_schema, checked_backward, rule)

    def joined(kernel):
        return with_gradient(signature, kernel, lambda *args: (backward if unwatched(args) else backward_op)(*args))

    dispatched = joined(below_autograd)
    torch.library.impl(f"kernels::{name}", "Autograd", lambda *args: dispatched(*signature.bind(args, {})))
    return public(signature, joined(lambda *args: (kernel if unwatched(args) else op)(*args)), op)


def differentiable(signature: Signature, forward: Callable, backward: Callable | None = None) -> Callable[..., Any]:
    """The differentiable function of bare kernels that are not registered: for eager use."""
    kernel = counting_updates(signature, forward)
    return public(signature, kernel if backward is None else with_gradient(signature, kernel, backward))


def public(signature: Signature, run: Callable, op: Callable | None = None) -> Callable[..., Any]:
    """The function that binds and checks its arguments, then gives `run` all of them."""
    validate, count = signature.validate, len(signature.types)

    def call(*args, **kwargs):
        if op is not None and torch.compiler.is_compiling():
            return op(*args, **kwargs)
        if kwargs or len(args) != count:
            args = signature.bind(args, kwargs)
        validate(*args)
        return run(*args)

    call.__signature__ = signature.python
    return call


def with_gradient(signature: Signature, kernel: Callable, backward: Callable) -> Callable[..., Any]:
    """(every parameter) → what `kernel` returns, joined to its backward where a gradient is wanted."""
    plain, transformable = autograd_functions(signature, kernel, backward)
    # Function.apply is this, and before it asks for torch.func's transforms, which `run` does.
    apply = super(torch.autograd.Function, plain).apply
    updates, inputs = len(signature.updated), [list(signature.types).index(name) for name in signature.gradients]

    def run(*args):
        if not torch.is_grad_enabled() or not any(args[i] is not None and args[i].requires_grad for i in inputs):
            return kernel(*args)
        result = (apply if torch._C._functorch.peek_interpreter_stack() is None else transformable.apply)(*args)
        if not updates:
            return result
        outputs = result[updates:]
        return outputs if len(outputs) > 1 else outputs[0] if outputs else None

    return run


def autograd_functions(
    signature: Signature, kernel: Callable, backward_kernel: Callable
) -> tuple[type[torch.autograd.Function], ...]:
    """The two joined for autograd: once for plain calls, once for torch.func.

    A backward that is itself to be differentiated (create_graph=True, torch.func.grad) is computed by the operators of
    level 1, which autograd knows: so gradients of gradients are right, to any order.
    """
    names, returned = tuple(signature.types), (*signature.updated, *signature.outputs)
    fixed = [name for name in returned if name in signature.non_differentiable]
    updated = picker(names, signature.updated)
    saved = picker((*names, *returned), signature.save)
    parameters = picker(names, signature.parameters)
    constant, taken = picker(returned, fixed), picker(returned, [name for name in returned if name not in fixed])
    # An argument without a gradient has the None that is put behind the gradients.
    placed = picker((*signature.gradients, None), [name if name in signature.gradients else None for name in names])
    # Else autograd would fill zeros for the outputs without a gradient, at the cost of a launch each.
    sparse = bool(fixed) and len(returned) == len(fixed) + 1

    def known(saved):
        return (None if name in fixed else tensor for name, tensor in zip(signature.save, saved, strict=True))

    class Plain(torch.autograd.Function):
        """A forward that takes the context costs a quarter of one with a separate setup_context."""

        @staticmethod
        def forward(ctx, *args):
            result = Transformable.forward(*args)
            Transformable.setup_context(ctx, args, result)
            return result

        @staticmethod
        def backward(ctx, *gradients):
            if fixed:
                gradients = taken(gradients)
                if sparse and gradients[0] is None:
                    return (None,) * len(names)
            if torch.is_grad_enabled():
                result = signature.native_backward(*gradients, *known(ctx.saved_tensors), *ctx.parameters)
            else:
                result = backward_kernel(*gradients, *ctx.saved_tensors, *ctx.parameters)
            return placed((*result, None) if type(result) is tuple else (result, None))

    class Transformable(torch.autograd.Function):
        generate_vmap_rule = True
        backward = Plain.backward

        @staticmethod
        def forward(*args):
            result = kernel(*args)
            return (*updated(args), *as_tuple(result)) if signature.updated else result

        @staticmethod
        def setup_context(ctx, inputs, output):
            output = as_tuple(output)
            ctx.save_for_backward(*saved((*inputs, *output)))
            ctx.parameters = parameters(inputs)
            if signature.updated:
                ctx.mark_dirty(*updated(inputs))
            if fixed:
                ctx.mark_non_differentiable(*constant(output))
                ctx.set_materialize_grads(not sparse)

    return Plain, Transformable


def counting_updates(signature: Signature, kernel: Callable) -> Callable:
    """A bare kernel whose updates autograd learns of, which refuses a backward that would see a saved tensor changed."""
    if not signature.updated:
        return kernel
    updated = picker(tuple(signature.types), signature.updated)

    def call(*args):
        result = kernel(*args)
        torch.autograd.graph.increment_version([tensor for tensor in updated(args) if not tensor.is_inference()])
        return result

    return call


def like_inputs(signature: Signature) -> Callable[..., Any]:
    """A backward's shape rule: each gradient contiguous and otherwise like its input, which is saved."""
    inputs = picker((*signature.differentiable, *signature.save), signature.gradients)

    def rule(*args):
        gradients = tuple(None if of is None else empty_contiguous(of) for of in inputs(args))
        return gradients if len(gradients) > 1 else gradients[0]

    return rule


def define(name: str, schema: str, kernel: Callable, shape_rule: Callable) -> Callable:
    """The operator `torch.ops.kernels.<name>`, for tensors on a CPU and on a GPU."""
    qualified = f"kernels::{name}"
    torch.library.define(qualified, schema)
    torch.library.impl(qualified, ("cpu", "cuda"), kernel)
    torch.library.register_fake(qualified, shape_rule)
    return getattr(torch.ops.kernels, name).default


def as_tuple(result: Any) -> tuple:
    return result if type(result) is tuple else () if result is None else (result,)


def unwatched(args: tuple) -> bool:
    """Whether these are plain tensors, and no mode, transform, tracer or profiler wants to see the operator."""
    return (
        PLAIN.issuperset(map(type, args))
        and not torch._C._len_torch_dispatch_stack()
        and torch._C._functorch.peek_interpreter_stack() is None
        and torch._C._get_tracing_state() is None
        and not torch.autograd._profiler_enabled()
    )
