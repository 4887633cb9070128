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
from torch._C._functorch import peek_interpreter_stack

from kernels.arguments import checked
from kernels.operation import Variant
from kernels.replay import UNLIKE, replaying
from kernels.rules import empty_gradients, empty_outputs, kernel_schema
from kernels.signature import Signature, picker

Rungs = tuple[Variant, ...]
# What is no tensor, and tensors with memory of their own: no fake tensors, no subclasses.
PLAIN = frozenset((torch.Tensor, torch.nn.Parameter, type(None), bool, int, float, str, tuple, list))


def join(signature: Signature, name: str, forward: Rungs, backward: Rungs = ()) -> tuple[Rungs, Rungs]:
    """The two ladders of a level, of bare kernels, made differentiable; the last rungs become `torch.ops.kernels.<name>`.

    Each rung of `forward` gets the last backward, and each of `backward` the last forward.
    """
    signature = kernel_schema(signature)
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
    kernel, repeat = replaying(checked(signature.validate, forward))

    def run(*args):
        if (result := repeat(args)) is not UNLIKE:
            return result
        return (kernel if unwatched(args) else op)(*args)

    def complete(function):
        return lambda *args: function(*signature.bind(args, {}))  # the dispatcher leaves out what is as its default

    shape_rule = checked(signature.validate, empty_outputs(signature))
    op = define(name, signature.schema, complete(counting_updates(signature, kernel)), complete(shape_rule))
    if backward is None:
        return public(signature, run, op=op)

    kernel_backward, repeat_backward = replaying(checked(signature.validate_backward, backward))

    def run_backward(*args):
        if (result := repeat_backward(args)) is not UNLIKE:
            return result
        return (kernel_backward if unwatched(args) else backward_op)(*args)

    def below_autograd(*args):
        with torch._C._AutoDispatchBelowAutograd():
            return op(*args)

    # A Function's forward runs without gradients. A compiler takes an update there for one under no_grad, which a gradient
    # passes by: so the mode is on again, and what keeps autograd out of the operator is the exclusion of its keys.
    within = torch.enable_grad()(below_autograd)
    backward_op = define(f"{name}_backward", signature.backward_schema, kernel_backward, empty_gradients(signature))
    torch.library.impl(f"kernels::{name}", "Autograd", public(signature, below_autograd, run_backward, within=within))
    return public(signature, run, run_backward, op)


def differentiable(signature: Signature, forward: Callable, backward: Callable | None = None) -> Callable[..., Any]:
    """The differentiable function of bare kernels that are not registered: for eager use."""
    return public(signature, checked(signature.validate, forward), backward)


def public(
    signature: Signature,
    kernel: Callable,
    backward: Callable | None = None,
    op: Callable | None = None,
    within: Callable | None = None,
) -> Callable[..., Any]:
    """The function that binds its arguments, and joins the kernel, which checks them, to its backward where a gradient is
    wanted. `within` takes the kernel's place there."""
    names, updates = signature.names, len(signature.updated)
    inputs = [names.index(name) for name in (*signature.gradients, *signature.passes)] if backward else []
    plain, transformable = autograd_functions(signature, within or kernel, backward)
    kernel = counting_updates(signature, kernel)
    # Function.apply is this, and before it asks for torch.func's transforms, which `call` does.
    apply = super(torch.autograd.Function, plain).apply

    def call(*args, **kwargs):
        if op is not None and torch.compiler.is_compiling():
            return op(*args, **kwargs)
        if kwargs or len(args) != len(names):
            args = signature.bind(args, kwargs)
        if not torch.is_grad_enabled():
            return kernel(*args)
        for i in inputs:
            if getattr(args[i], "requires_grad", False):
                break
        else:
            return kernel(*args)
        result = (apply if peek_interpreter_stack() is None else transformable.apply)(*args)
        if not updates:
            return result
        outputs = result[updates:]
        return outputs if len(outputs) > 1 else outputs[0] if outputs else None

    call.__signature__ = signature.python
    return call


def autograd_functions(
    signature: Signature, kernel: Callable, backward_kernel: Callable | None
) -> tuple[type[torch.autograd.Function], ...]:
    """The two joined for autograd: once for plain calls, once for torch.func.

    A backward that is itself to be differentiated (create_graph=True, torch.func.grad) is computed by the operators of
    level 1, which autograd knows: so gradients of gradients are right, to any order.
    """
    names, returned = signature.names, (*signature.updated, *signature.outputs)
    fixed = [name for name in returned if name in signature.non_differentiable]
    updates = picker(names, signature.updated) if signature.updated else None
    saved = picker((*names, *returned), signature.save)
    parameters = picker(names, signature.parameters)
    constant, taken = picker(returned, fixed), picker(returned, signature.differentiable)
    onward = picker(signature.differentiable, signature.passes.values())
    # An argument without a gradient has the None that is put behind the gradients.
    found = (*signature.gradients, *signature.passes)
    placed = picker((*found, None), [name if name in found else None for name in names])
    # Else autograd would fill zeros for the outputs without a gradient, at the cost of a launch each.
    sparse = bool(fixed) and len(returned) == len(fixed) + 1

    def run(*args):
        result = kernel(*args)
        return result if updates is None else (*updates(args), *as_tuple(result))

    def keep(ctx, inputs, output):
        ctx.save_for_backward(*saved((*inputs, *output) if type(output) is tuple else (*inputs, output)))
        ctx.parameters = parameters(inputs)
        if updates is not None:
            ctx.mark_dirty(*updates(inputs))
        if fixed:
            ctx.mark_non_differentiable(*constant(as_tuple(output)))
            ctx.set_materialize_grads(not sparse)

    def known(saved):
        return (None if name in fixed else tensor for name, tensor in zip(signature.save, saved, strict=True))

    class Plain(torch.autograd.Function):
        """A forward that takes the context costs a quarter of one with a separate setup_context."""

        @staticmethod
        def forward(ctx, *args):
            result = run(*args) if updates else kernel(*args)
            keep(ctx, args, result)
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
            return placed((*as_tuple(result), *onward(gradients), None))

    class Transformable(torch.autograd.Function):
        generate_vmap_rule = True
        forward, setup_context, backward = staticmethod(run), staticmethod(keep), Plain.backward

    return Plain, Transformable


def counting_updates(signature: Signature, kernel: Callable) -> Callable:
    """A bare kernel whose updates autograd learns of, which refuses a backward that would see a saved tensor changed."""
    if not signature.updated:
        return kernel
    updated = picker(signature.names, signature.updated)

    def call(*args):
        result = kernel(*args)
        torch.autograd.graph.increment_version([tensor for tensor in updated(args) if not tensor.is_inference()])
        return result

    return call


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
        and peek_interpreter_stack() is None
        and torch._C._get_tracing_state() is None
        and not torch.autograd._profiler_enabled()
    )
