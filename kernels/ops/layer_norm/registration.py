"""How the kernels of levels 4 and 5 become PyTorch operators: with a shape rule and a gradient.

`torch.ops.kernels.<name>` then works under autograd and inside torch.compile(fullgraph=True), and its backward is an operator
of its own, `torch.ops.kernels.<name>_backward`. On the way to an operator written in Python, PyTorch's dispatcher spends
several microseconds on asking who else wants to see the call: a compiler, a mode, a transform, autograd. The function that
`register` returns asks for itself, in a fraction of one, and where nobody is watching it calls the kernel.
"""

from collections.abc import Callable
from dataclasses import replace

import torch

from kernels.arguments import empty_contiguous
from kernels.operation import Variant
from kernels.ops.layer_norm import native
from kernels.ops.layer_norm.arguments import validate_for_kernel, validate_gradient

SCHEMA = "(Tensor x, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> Tensor"
BACKWARD_SCHEMA = "(Tensor dy, Tensor x, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor?, Tensor?)"
Gradients = tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]  # of x, weight and bias
PLAIN = frozenset((torch.Tensor, torch.nn.Parameter, type(None)))


def join(
    name: str, forward: tuple[Variant, ...], backward: tuple[Variant, ...]
) -> tuple[tuple[Variant, ...], tuple[Variant, ...]]:
    """The two ladders of a level, of bare kernels, made differentiable; the last rungs become `torch.ops.kernels.<name>`.

    Args:
        name: of the operator.
        forward: variants whose fn is (x, weight, bias, eps) → y; they get the last backward.
        backward: variants whose fn is (dy, x, weight, bias, eps) → (dx, dweight or None, dbias or None); they get the last
            forward.
    """
    *forward, best = forward
    *backward, best_backward = backward
    default = register(name, best.fn, best_backward.fn)
    return (
        (*(replace(rung, fn=differentiable(rung.fn, best_backward.fn)) for rung in forward), replace(best, fn=default)),
        (
            *(replace(rung, fn=differentiable(best.fn, rung.fn)) for rung in backward),
            replace(best_backward, fn=default),
        ),
    )


def register(name: str, forward: Callable, backward: Callable) -> Callable[..., torch.Tensor]:
    """Register two kernels as `torch.ops.kernels.<name>` and `<name>_backward`.

    Args:
        name: of the operator.
        forward: (x, weight, bias, eps) → y.
        backward: (dy, x, weight, bias, eps) → (dx, dweight or None, dbias or None).

    Returns:
        the differentiable function (x, weight=None, bias=None, eps=1e-5) → y, for eager use, torch.compile and torch.func.
    """

    def checked(x, weight=None, bias=None, eps=1e-5):
        validate_for_kernel(x, weight, bias, eps)
        return forward(x, weight, bias, eps)

    def shape_rule(x, weight=None, bias=None, eps=1e-5):
        validate_for_kernel(x, weight, bias, eps)
        return empty_contiguous(x)

    def checked_backward(dy, x, weight, bias, eps):
        validate_for_kernel(x, weight, bias, eps)
        validate_gradient(dy, x)
        return backward(dy, x, weight, bias, eps)

    def backward_shape_rule(dy, x, weight, bias, eps):
        return tuple(None if tensor is None else empty_contiguous(tensor) for tensor in (x, weight, bias))

    op = define(name, SCHEMA, checked, shape_rule)
    backward_op = define(f"{name}_backward", BACKWARD_SCHEMA, checked_backward, backward_shape_rule)

    def layer_norm(x, weight=None, bias=None, eps=1e-5):
        if torch.compiler.is_compiling():
            return op(x, weight, bias, eps)
        validate_for_kernel(x, weight, bias, eps)
        if not needs_gradient(x, weight, bias):
            return below_autograd(x, weight, bias, eps)
        plain = torch._C._functorch.peek_interpreter_stack() is None
        return (apply if plain else transformable.apply)(x, weight, bias, eps)

    def below_autograd(x, weight, bias, eps):
        return (forward if unwatched(x, weight, bias) else op)(x, weight, bias, eps)

    def layer_norm_backward(dy, x, weight, bias, eps):
        kernel = backward if unwatched(x, weight, bias) and type(dy) in PLAIN else backward_op
        return kernel(dy, x, weight, bias, eps)

    function, transformable = autograd_functions(below_autograd, layer_norm_backward)
    # Function.apply is this, and before it asks for torch.func's transforms, which `layer_norm` has done.
    apply = super(torch.autograd.Function, function).apply
    torch.library.register_autograd(
        f"kernels::{name}", transformable.backward, setup_context=transformable.setup_context
    )
    return layer_norm


def differentiable(forward: Callable, backward: Callable) -> Callable[..., torch.Tensor]:
    """The differentiable function of a rung that is not registered: for eager use. Arguments as those of `register`."""
    function, _ = autograd_functions(forward, backward)

    def layer_norm(x, weight=None, bias=None, eps=1e-5):
        validate_for_kernel(x, weight, bias, eps)
        return (function.apply if needs_gradient(x, weight, bias) else forward)(x, weight, bias, eps)

    return layer_norm


def autograd_functions(kernel: Callable, backward_kernel: Callable) -> tuple[type[torch.autograd.Function], ...]:
    """The two joined for autograd: once for plain calls, once for torch.func and the registration.

    A backward that is itself to be differentiated (create_graph=True, torch.func.grad) is computed by the operators of
    level 1, which autograd knows: so gradients of gradients are right, to any order.
    """

    class Plain(torch.autograd.Function):
        """A forward that takes the context costs a quarter of one with a separate setup_context."""

        @staticmethod
        def forward(ctx, *args):
            Transformable.setup_context(ctx, args, None)
            return kernel(*args)

        @staticmethod
        def backward(ctx, dy):
            backward = native.layer_norm_backward if torch.is_grad_enabled() else backward_kernel
            return *backward(dy, *ctx.saved_tensors, ctx.eps), None

    class Transformable(torch.autograd.Function):
        generate_vmap_rule = True
        backward = Plain.backward

        @staticmethod
        def forward(x, weight, bias, eps):
            return kernel(x, weight, bias, eps)

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, weight, bias, ctx.eps = inputs
            ctx.save_for_backward(x, weight, bias)

    return Plain, Transformable


def define(name: str, schema: str, kernel: Callable, shape_rule: Callable) -> Callable:
    """The operator `torch.ops.kernels.<name>`, for tensors on a CPU and on a GPU."""
    qualified = f"kernels::{name}"
    torch.library.define(qualified, schema)
    torch.library.impl(qualified, ("cpu", "cuda"), kernel)
    torch.library.register_fake(qualified, shape_rule)
    return getattr(torch.ops.kernels, name).default


def needs_gradient(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> bool:
    return torch.is_grad_enabled() and (
        x.requires_grad or (weight is not None and weight.requires_grad) or (bias is not None and bias.requires_grad)
    )


def unwatched(x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> bool:
    """Whether these are tensors with memory, and no mode, transform, tracer or profiler wants to see the operator."""
    return (
        type(x) in PLAIN
        and type(weight) in PLAIN
        and type(bias) in PLAIN
        and not torch._C._len_torch_dispatch_stack()
        and torch._C._functorch.peek_interpreter_stack() is None
        and torch._C._get_tracing_state() is None
        and not torch.autograd._profiler_enabled()
    )
