"""How a call of a registered operator is observed, in its worker, step by step: what comes later is observed only of an
operator whose earlier steps hold, so that a mistake is reported soon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernels.grading.labs.registering import layouts
from kernels.grading.labs.registering.calls import Called, Calls
from kernels.grading.properties.differences import differing
from kernels.grading.python import torch_compile
from kernels.grading.python.places import line_of

# What opcheck and Triton's interpreter import when they are first called, which takes longer than all the rest.
_LATE = (
    "torch._inductor.pattern_matcher", "torch.distributed.tensor.experimental", "torch.testing._internal.optests",
    "sympy.tensor.tensor", "triton.experimental.gluon",
)  # fmt: skip
_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
_ALONE = ("test_schema", "test_faketensor")  # of the backward's operator: it is traced with the forward's
_BEYOND = {"L['x'].size()[0]": 2_000_003, "L['x'].size()[1]": 1_000_003}
MODULES = (*torch_compile.MODULES, *_LATE, "kernels.grading.labs.registering.starter", __name__)

_held: list[bool] = []  # whether all steps did, of the calls so far: this process tries one submission


def differentiable(function: Callable, args: Mapping[str, Any]) -> tuple[Any, dict]:
    """Observes f(x, eps) → y: the results are y and the gradient of x. Facts:

    "operators", "launched": of the forward, by name, and "backward operators", "backward launched".
    "strides": those of y, where it is not contiguous.
    "fake", "backward fake": how its fake implementation differs from an operator, in words, or None.
    "gradient": why there is none. "kept": what the backward keeps beside x. "schemas": a schema that is not right. "mixed":
    whether the gradient is that of a later call. "unnoticed": whether it was computed from
    values of x that came later. "no GPU": the operators that have no implementation there. "opcheck": what that found first.
    And those of `torch_compile.with_gradient`.
    """
    x, eps = layouts.matrix(args["x"], args["x_is"])[0], args["eps"]
    dy, _ = layouts.matrix(args["dy"], args["dy_is"])
    is_contiguous = args["x_is"] == layouts.CONTIGUOUS
    with Calls().watching() as forward, torch.no_grad():
        y = function(x, eps)
    facts: dict[str, Any] = {"operators": _names(forward), "launched": forward.launched}
    dx = torch.full_like(x, float("nan"))
    _held.append(False)
    if not forward.operators or not isinstance(y, torch.Tensor):
        return (y, dx), facts
    facts["strides"] = None if y.is_contiguous() else y.stride()
    facts["fake"] = _fake(*forward.operators[0])
    if facts["fake"]:
        return (y, dx), facts
    dx, backward, found = _gradient(function, x, eps, dy)
    facts |= found | {"backward operators": _names(backward), "backward launched": backward.launched}
    if facts["gradient"] or not backward.operators:
        return (y, dx), facts
    facts["backward fake"] = next(filter(None, (_fake(*one) for one in backward.operators)), None)
    facts["no GPU"] = _without_cuda(forward, backward)
    facts["schemas"] = _misdeclared(forward, backward) if len(x) else None
    is_first = len(_held) == 1
    if is_first:
        facts["mixed"] = _mixed(function, x, eps, dy, dx)
        facts["unnoticed"] = _unnoticed(function, x, eps, dy, dx)
    is_once = not len(x) or len(forward.launched) == len(backward.launched) == 1
    is_kept = not (facts.get("mixed") or facts.get("unnoticed") or facts.get("kept") or facts["schemas"])
    _held[-1] = is_once and is_kept and _is_near(y, dx, x, dy, eps)
    if all(_held) and args["x_is"] == layouts.SPREAD:
        facts["opcheck"] = _opcheck(backward.operators, _ALONE) or _opcheck(forward.operators, wanting=True)
    elif all(_held) and is_contiguous and x.dtype == torch.float32 and not is_first and len(x):
        facts |= torch_compile.with_gradient(function, {"x": x, "eps": eps, "dy": dy}, _BEYOND, aot=True)[1]
    return (y, dx), facts


def in_place(function: Callable, args: Mapping[str, Any]) -> tuple[Any, dict]:
    """Observes f(average, value, decay), which changes average: the result is what lies in its memory then. Facts:

    "operators", "launched": as above. "around": whether what lies beside average was changed. "schema": the names of the
    arguments that it marks as changed, of those that were, and how many results it promises. "no GPU", "opcheck": as above.
    """
    average, memory = layouts.matrix(args["average"].clone(), args["average_is"])
    value, _ = layouts.matrix(args["value"], args["value_is"])
    kept, beside = average.detach(), memory.clone()
    with Calls().watching() as calls:
        function(average, value, args["decay"])
    facts: dict[str, Any] = {"operators": _names(calls), "launched": calls.launched}
    beside.as_strided(kept.shape, kept.stride(), kept.storage_offset()).copy_(kept)
    facts["around"] = bool(differing(memory, beside).any())
    if calls.operators:
        facts["no GPU"] = _without_cuda(calls)
        schema = calls.operators[0][0]._schema
        declared = {one.name for one in schema.arguments if one.alias_info and one.alias_info.is_write}
        facts["schema"] = declared, calls.changed[0], len(schema.returns)
        _held.append(declared == calls.changed[0] and not schema.returns and len(calls.launched) == 1)
        if all(_held) and args["average_is"] == layouts.PART:
            facts["opcheck"] = _opcheck(calls.operators)
    return kept.clone(), facts


def _is_near(y: torch.Tensor, dx: torch.Tensor, x: torch.Tensor, dy: torch.Tensor, eps: float) -> bool:
    """Whether the results are right, roughly: then what takes longer is worth observing."""
    rms = (x.square().mean(1, keepdim=True) + eps).sqrt()
    n = x / rms
    pairs = (y, n), (dx, (dy - n * (dy * n).mean(1, keepdim=True)) / rms)
    return all(one.shape == other.shape and torch.allclose(one, other, 0.05, 0.05) for one, other in pairs)


def _names(calls: Calls) -> list[str]:
    return [one.name() for one, *_ in calls.operators]


def _without_cuda(*calls: Calls) -> list[str]:
    """Of the operators that were called, those that have no implementation for CUDA."""
    names = [name for one in calls for name in _names(one)]
    return [one for one in names if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(one, "CUDA")]


def _fake(operator: torch._ops.OpOverload, args: tuple, result: Any) -> str | None:
    """How the fake implementation differs from a call of the operator."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode()
    given = [arg.detach() if isinstance(arg, torch.Tensor) else arg for arg in args]
    without = [mode.from_tensor(arg) if isinstance(arg, torch.Tensor) else arg for arg in given]
    on_meta = [arg.to("meta") if isinstance(arg, torch.Tensor) else arg for arg in given]
    try:
        with Calls().watching():
            with mode:
                said = operator(*without)
            there = operator(*on_meta)
    except Exception as error:
        return _described(error)
    fakes, theres, reals = _tensors(said), _tensors(there), _tensors(result)
    if not len(fakes) == len(theres) == len(reals):
        return f"it returned {type(said).__name__}, and the real one returned {type(result).__name__}"
    memory = [_memory(arg) for arg in _tensors(without)]
    for fake, there, real in zip(fakes, theres, reals, strict=True):
        if _memory(fake) in memory:
            return "it returned its argument, or a view of it; the kernel's result is new"
        for what in ("shape", "dtype", "device"):
            says, is_so = (getattr(one, what) for one in (fake, real))
            if says != is_so:
                says, is_so = (tuple(says), tuple(is_so)) if what == "shape" else (says, is_so)
                return f"its result has the {what} {says}, and the real one has {is_so}"
        if there.device.type != "meta":
            return f"for tensors on the device meta, its result is on {there.device}"
        if fake.stride() != real.stride():
            return f"its result has the strides {fake.stride()}, and the real one has {real.stride()}"
    return None


def _tensors(results: Any) -> list[torch.Tensor]:
    return [one for one in tree_leaves(results) if isinstance(one, torch.Tensor)]


def _memory(tensor: torch.Tensor) -> int:
    """Which it lies in: the same number for its views."""
    return tensor.untyped_storage()._cdata


def _gradient(function: Callable, x: torch.Tensor, eps: float, dy: torch.Tensor) -> tuple[torch.Tensor, Calls, dict]:
    """dx, what its computation asked for, and the facts "gradient" and "kept"."""
    x, kept, backward = x.detach().requires_grad_(), [], Calls()
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda one: kept.append(one) or one, lambda one: one)
    facts: dict[str, Any] = {"gradient": None}
    try:
        with Calls().watching() as forward, hooks:
            y = function(x, eps)
        kept += _attributes(y.grad_fn)
        # A copy that the operator was given is what its backward calls x.
        given = {_memory(one) for _, args, _ in forward.operators for one in _tensors(args)} | {_memory(x)}
        facts["kept"] = [_named(one, x, y) for one in kept if _memory(one) not in given]
        with backward.watching():
            (dx,) = torch.autograd.grad(y, x, dy)
    except Exception as error:
        return torch.full_like(x, float("nan")).detach(), backward, facts | {"gradient": _described(error)}
    return dx, backward, facts


def _named(kept: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> str:
    if _memory(kept) == _memory(y):
        return "y"
    return "a copy of x" if torch.equal(kept, x) else f"a tensor of shape {tuple(kept.shape)}"


def _attributes(node: Any) -> list[torch.Tensor]:
    """The tensors that lie on a node of autograd's graph as attributes, or in tuples and the like, and on those before it."""
    if node is None:
        return []
    return _tensors(list(getattr(node, "__dict__", {}).values())) + [
        one for before, _ in node.next_functions for one in _attributes(before)
    ]


def _misdeclared(*calls: Calls) -> tuple[set[str], set[str], int] | None:
    """Of the first operator whose schema is not right: the names of the arguments that it marks as changed, of those that
    were, and 0, since it may return what it likes."""
    for (operator, *_), changed in (
        (one, of) for call in calls for one, of in zip(call.operators, call.changed, strict=True)
    ):
        declared = {one.name for one in operator._schema.arguments if one.alias_info and one.alias_info.is_write}
        if declared != changed:
            return declared, changed, 0
    return None


def _mixed(function: Callable, x: torch.Tensor, eps: float, dy: torch.Tensor, dx: torch.Tensor) -> bool:
    """Whether a forward of other values and another eps, between a forward and its backward, goes into the gradient."""
    start = x.clone().requires_grad_()
    y = function(start, eps)
    function((1 - 2 * x).requires_grad_(), eps + 1)
    (found,) = torch.autograd.grad(y, start, dy)
    return not torch.allclose(found, dx)


def _unnoticed(function: Callable, x: torch.Tensor, eps: float, dy: torch.Tensor, dx: torch.Tensor) -> bool:
    """Whether a change of x in place, before the backward, goes into the gradient without an error."""
    start = x.clone().requires_grad_()
    between = start + 0
    y = function(between, eps)
    between.detach().mul_(3).add_(1)  # detached, it shares memory and version with what was given
    try:
        (found,) = torch.autograd.grad(y, start, dy)
    except RuntimeError:
        return False
    return not torch.allclose(found, dx)


def _opcheck(
    operators: Sequence[Called],
    tests: Sequence[str] = _TESTS,
    wanting: bool = False,
) -> str | None:
    """The first thing that opcheck finds. wanting: inputs want gradients."""
    for operator, args, _ in operators:
        given = [arg.detach().requires_grad_(wanting) if isinstance(arg, torch.Tensor) else arg for arg in args]
        with Calls().watching():
            results = torch.library.opcheck(operator, tuple(given), test_utils=tests, raise_exception=False)
        for test, result in results.items():
            if isinstance(result, BaseException):
                return f"{test} of {operator.name()}: {_described(result)}"
    return None


def _described(error: BaseException) -> str:
    """The first line of what was raised, and the line of the submission that it came from."""
    said = next(filter(None, str(error).splitlines()), type(error).__name__)
    if "_local_scalar_dense" in said or "data-dependent" in said:
        said = "it asks for a value, and tensors without memory have none"
    return f"{said}{line_of(error)}"
