"""How a call of a registered operator is observed, in its worker, step by step: what comes later is observed only of an
operator whose earlier steps hold, so that a mistake is told soon.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernels import triton_launch
from kernels.grading import compiled
from kernels.grading.differences import differing
from kernels.grading.labs.registering import layouts

# What opcheck and Triton's interpreter import when they are first called, which takes longer than all the rest.
_LATE = (
    "torch._inductor.pattern_matcher", "torch.distributed.tensor.experimental", "torch.testing._internal.optests",
    "sympy.tensor.tensor", "triton.experimental.gluon",
)  # fmt: skip
_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
_ALONE = ("test_schema", "test_faketensor")  # of the backward's operator: it is traced with the forward's
MODULES = (*compiled.MODULES, *_LATE, "kernels.grading.labs.registering.given", __name__)


_Called = tuple[torch._ops.OpOverload, tuple, Any]
_held: list[bool] = []  # whether all steps did, of the calls so far: this process tries one submission


class Calls(TorchDispatchMode):
    """What a call asks for: operators that are not PyTorch's, with their arguments and result; the names of the arguments
    that each changed; and the names of the kernels that are launched."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[_Called] = []
        self.changed: list[set[str]] = []
        self.launched: list[str] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace in ("aten", "prim", "prims"):
            return func(*args, **(kwargs or {}))
        names = [one.name for one in func._schema.arguments]
        given = {name: arg for name, arg in zip(names, args, strict=False) if _has_values(arg)}
        before = {name: arg.clone() for name, arg in given.items()}
        result = func(*args, **(kwargs or {}))
        self.operators.append((func, args, result))
        self.changed.append({name for name, arg in given.items() if differing(arg, before[name]).any()})
        return result

    @contextlib.contextmanager
    def watching(self) -> Iterator[Calls]:
        with self, triton_launch.watched(self._launch):
            yield self

    def _launch(self, kernel: Any, grid: Any, args: Sequence[Any], options: Mapping[str, Any]) -> None:
        self.launched.append(kernel.fn.__name__)
        if not all(_has_values(arg) for arg in args if isinstance(arg, torch.Tensor)):
            raise RuntimeError(f"{self.launched[-1]} was launched on tensors without memory")
        with triton_launch.watched(None):
            triton_launch.launch(kernel, grid, *args, **options)


def differentiable(function: Callable, args: Mapping[str, Any]) -> tuple[Any, dict]:
    """Observes f(x, eps) → y: the results are y and the gradient of x. Facts:

    "operators", "launched": of the forward, by name, and "backward operators", "backward launched".
    "fake": how its fake implementation differs from it, in words: in what, and in its strides; None where it does not.
    "gradient": why there is none. "kept": what the backward keeps beside x. "unnoticed": whether it was computed from
    values of x that came later. "opcheck": what that found first. And those of `compiled.with_gradient`.
    """
    x, eps = layouts.of(args["x"], args["x_is"])[0], args["eps"]
    dy, _ = layouts.of(args["dy"], args["dy_is"])
    is_contiguous = args["x_is"] == layouts.CONTIGUOUS
    with Calls().watching() as forward, torch.no_grad():
        y = function(x, eps)
    facts: dict[str, Any] = {"operators": _names(forward), "launched": forward.launched}
    dx = torch.full_like(x, float("nan"))
    _held.append(False)
    if not forward.operators:
        return (y, dx), facts
    facts["fake"] = _fake(*forward.operators[0])
    if any(facts["fake"]):
        return (y, dx), facts
    dx, backward, found = _gradient(function, x, eps, dy)
    facts |= found | {"backward operators": _names(backward), "backward launched": backward.launched}
    if facts["gradient"] or not backward.operators:
        return (y, dx), facts
    is_first = len(_held) == 1
    if is_first:
        facts["unnoticed"] = _unnoticed(function, x, eps, dy, dx)
    if not is_contiguous:
        del facts["kept"]  # a copy may be what is wanted
    is_once = len(forward.launched) == len(backward.launched) == 1
    is_kept = not facts.get("unnoticed") and not facts.get("kept")
    _held[-1] = is_once and is_kept and _is_near(y, dx, x, dy, eps)
    if all(_held) and args["x_is"] == layouts.TRANSPOSED:
        facts["opcheck"] = _opcheck(backward.operators, _ALONE) or _opcheck(forward.operators, wanting=True)
    elif all(_held) and is_contiguous and x.dtype == torch.float32 and not is_first:
        facts |= compiled.with_gradient(function, {"x": x, "eps": eps, "dy": dy})[1]
    return (y, dx), facts


def in_place(function: Callable, args: Mapping[str, Any]) -> tuple[Any, dict]:
    """Observes f(average, value, decay), which changes average: that is the result. Facts:

    "operators", "launched": as above. "around": whether what lies beside average was changed. "schema": the names of the
    arguments that it marks as changed, of those that were, and how many results it promises. "opcheck": as above.
    """
    average, memory = layouts.of(args["average"].clone(), args["average_is"])
    value, _ = layouts.of(args["value"], args["value_is"])
    beside = memory.clone()
    with Calls().watching() as calls:
        function(average, value, args["decay"])
    facts: dict[str, Any] = {"operators": _names(calls), "launched": calls.launched}
    if args["average_is"] == layouts.PART:
        facts["around"] = bool(differing(memory, beside)[:, [0, -2, -1]].any())
    if calls.operators:
        schema = calls.operators[0][0]._schema
        declared = {one.name for one in schema.arguments if one.alias_info and one.alias_info.is_write}
        facts["schema"] = declared, calls.changed[0], len(schema.returns)
        _held.append(declared == calls.changed[0] and not schema.returns and len(calls.launched) == 1)
        if all(_held) and args["average_is"] == layouts.PART:
            facts["opcheck"] = _opcheck(calls.operators)
    return average.clone(), facts


def _has_values(arg: Any) -> bool:
    """Whether it is a plain tensor, none of those that compilers trace with."""
    return type(arg) is torch.Tensor and not arg.is_meta


def _is_near(y: torch.Tensor, dx: torch.Tensor, x: torch.Tensor, dy: torch.Tensor, eps: float) -> bool:
    """Whether the results are right, roughly: then what takes longer is worth observing."""
    rms = (x.square().mean(1, keepdim=True) + eps).sqrt()
    n = x / rms
    pairs = (y, n), (dx, (dy - n * (dy * n).mean(1, keepdim=True)) / rms)
    return all(one.shape == other.shape and torch.allclose(one, other, 0.05, 0.05) for one, other in pairs)


def _names(calls: Calls) -> list[str]:
    return [one.name() for one, *_ in calls.operators]


def _fake(operator: torch._ops.OpOverload, args: tuple, result: Any) -> tuple[str | None, str | None]:
    """How the fake implementation differs from a call of the operator: in what, and in its strides."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode()
    without = [mode.from_tensor(arg) if isinstance(arg, torch.Tensor) else arg for arg in args]
    on_meta = [arg.to("meta") if isinstance(arg, torch.Tensor) else arg for arg in args]
    try:
        with Calls().watching():
            with mode:
                fake = operator(*without)
            there = operator(*on_meta)
    except Exception as error:
        return _told(error), None
    memory = [arg.untyped_storage()._cdata for arg in without if isinstance(arg, torch.Tensor)]
    if not isinstance(fake, torch.Tensor):
        return f"it returned {type(fake).__name__}, expected a tensor", None
    if fake.untyped_storage()._cdata in memory:
        return "it returned its argument, or a view of it; the kernel's result is new", None
    for what in ("shape", "dtype", "device"):
        said, is_so = (getattr(one, what) for one in (fake, result))
        if said != is_so:
            said, is_so = (tuple(said), tuple(is_so)) if what == "shape" else (said, is_so)
            return f"its result has the {what} {said}, and the real one has {is_so}", None
    if there.device.type != "meta":
        return f"for x on the device meta, its result is on {there.device}", None
    if fake.stride() != result.stride():
        return None, f"its result has the strides {fake.stride()}, and the real one has {result.stride()}"
    return None, None


def _gradient(function: Callable, x: torch.Tensor, eps: float, dy: torch.Tensor) -> tuple[torch.Tensor, Calls, dict]:
    """dx, what its computation asked for, and the facts "gradient" and "kept"."""
    x, kept = x.detach().requires_grad_(), []
    with torch.autograd.graph.saved_tensors_hooks(lambda one: kept.append(one) or one, lambda one: one):
        y = function(x, eps)
    kept += _attributes(y.grad_fn)
    places = {x.untyped_storage().data_ptr(): "x", y.untyped_storage().data_ptr(): "y"}
    named = [places.get(one.untyped_storage().data_ptr(), f"a tensor of shape {tuple(one.shape)}") for one in kept]
    facts = {"gradient": None, "kept": [name for name in named if name != "x"]}
    with Calls().watching() as backward:
        try:
            (dx,) = torch.autograd.grad(y, x, dy)
        except Exception as error:
            return torch.full_like(x, float("nan")).detach(), backward, facts | {"gradient": _told(error)}
    return dx, backward, facts


def _attributes(node: Any) -> list[torch.Tensor]:
    """The tensors that lie on a node of autograd's graph as attributes, and on those before it."""
    if node is None:
        return []
    here = [one for one in getattr(node, "__dict__", {}).values() if isinstance(one, torch.Tensor)]
    return here + [one for before, _ in node.next_functions for one in _attributes(before)]


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
    operators: Sequence[_Called],
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
                return f"{test} of {operator.name()}: {_told(result)}"
    return None


def _told(error: BaseException) -> str:
    """The first line of what was raised, and the line of the submission that it came from."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if "/submission-" in one.filename]
    said = next(filter(None, str(error).splitlines()), type(error).__name__)
    if "_local_scalar_dense" in said or "data-dependent" in said:
        said = "it asks for a value, and tensors without memory have none"
    return f"{said}\n    {frames[-1].lineno} | {frames[-1].line}" if frames else said
