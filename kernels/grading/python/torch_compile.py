"""What torch.compile makes of a submission: graphs, where they break, and how often it compiles. Properties of that.

The backend keeps the graph and runs it as it is, or as AOTAutograd traced it with its backward: Inductor would take seconds
and change none of the answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from kernels.grading.exercise import Property, Trial

# What `torch.compile` imports when it is first used, which takes longer than all the rest.
MODULES = ("torch._dynamo", "torch._dynamo.repro.after_dynamo")
# PyTorch's own: a submission that adds to them is loaded later.
_OPERATORS = {name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}

# What Dynamo says of a break, and what it means here.
_BREAKS = {
    "Data-dependent": "what to do next depends on a value, and there are no values while the graph is traced",
    "data-dependent": "what to do next depends on a value, and there are no values while the graph is traced",
    "print": "print is run by Python at every call, and cannot be in the graph",
    "torch.compiler.disable": "it turns the compiler off",
    "call_function cond(": "torch.cond makes the GPU's work wait for a value, and takes no Python float among its operands",
}


class _Compiled:
    """A function under torch.compile with dynamic shapes, in one graph or not at all, and what was seen of it."""

    def __init__(self, function: Callable, aot: bool) -> None:
        from torch._dynamo import lookup_backend, optimize  # seconds, and only a worker needs it

        torch.compiler.reset()
        self.function, self.graphs, self.conditions, self.failed_guards, self.runs = function, [], [], [], 0
        self.inner = lookup_backend("aot_eager" if aot else "eager")
        keep = {"guard_fail_fn": lambda failure: self.failed_guards.append(str(failure.reason))}
        self.compiled = optimize(self._backend, nopython=True, dynamic=True, **keep)(function)

    def _backend(self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable:
        forward = self.inner(graph, example_inputs)  # which may ask to be given another graph first
        self.graphs.append(graph)
        # Of the sizes and numbers in this version, and where the text made each. PyTorch's own wrapper has them in kwargs.
        sizes = torch._guards.TracingContext.get().fake_mode.shape_env
        names = {symbol: sources[0].name for symbol, sources in sizes.var_to_sources.items() if sources}
        named = {symbol: name.replace("L['kwargs']", "L") for symbol, name in names.items()}
        self.conditions.append([(guard.expr, named, str(guard.sloc)) for guard in sizes.guards])

        def run(*inputs: Any) -> Any:
            self.runs += 1
            return forward(*inputs)

        return run


_latest: _Compiled | None = None


def with_gradient(
    function: Callable, args: Mapping[str, Any], beyond: Mapping[str, float] | None = None, *, aot: bool = False
) -> tuple[Any, dict]:
    """Observes f(x, …) → y: the results are y and the gradient of x, where `args` has dy.

    They are those of the compiled function, or of the plain one if the graph breaks or the two differ. Facts: "break", why
    and where, or None; "compilations" and "runs" of graphs in this call; "failed", the guard that made it compile again;
    operators in the graphs that are not PyTorch's, "foreign", and those that need a value, "asks".

    beyond: a call that no one makes, by what Dynamo calls its sizes and numbers, such as {"L['x'].size()[0]": 2_000_000}.
        "narrow" is the condition of the latest version that would keep it out, or "".
    aot: trace the backward as well, when the graph is compiled: what that needs to know of sizes is a condition, too.
    """
    global _latest
    from torch._dynamo.exc import TorchDynamoException

    given = {name: value for name, value in args.items() if name != "dy"}
    y = _result(function, given)  # an error of the plain function is reported as Python does
    if _latest is None or _latest.function is not function:
        _latest = _Compiled(function, aot)
    compiled, run, broke = len(_latest.graphs), _latest.runs, None
    _latest.failed_guards.clear()
    try:
        plain, y = y, _result(_latest.compiled, given)
        if not _alike(plain[0], y[0]):  # it asks whether it is being compiled
            y = plain
    except TorchDynamoException as error:
        broke = str(error)
    dx = torch.zeros_like(y[1])
    if y[0].requires_grad:
        (dx,) = torch.autograd.grad(*y, args["dy"], allow_unused=True, materialize_grads=True)
    nodes = [node for graph in _latest.graphs for node in graph.graph.nodes if node.op.startswith("call_")]
    facts = {
        "break": broke,
        "compilations": len(_latest.graphs) - compiled,
        "runs": _latest.runs - run,
        "failed": next(iter(_latest.failed_guards), ""),
        "narrow": _narrow(_latest.conditions[-1], beyond) if beyond and _latest.conditions else "",
        "foreign": [_called(node) for node in nodes if not _torch_call(node)],
        "asks": [_called(node) for node in nodes if _asks(node)],
    }
    return (y[0], dx), facts


def _narrow(conditions: Sequence[tuple], beyond: Mapping[str, float]) -> str:
    """The first condition that is false of a call, and its line."""
    from sympy import Symbol, false

    for condition, named, place in conditions:
        if condition.subs({symbol: beyond[name] for symbol, name in named.items() if name in beyond}) != false:
            continue
        words = {
            symbol: re.sub(r"L\['(\w+)'\](?:\.size\(\)(\[\d+\]))?", _as_in_python, name)
            for symbol, name in named.items()
        }
        line = re.match(r"(.*?)  # [^:]*:(\d+) in ", place)
        where = f" (line {line[2]}: {line[1].strip()})" if line else ""
        if inner := re.search(r"\(\S*/submission-[^:]*:(\d+) in ", place):  # called by a wrapper of PyTorch's
            where = f" (line {inner[1]})"
        return str(condition.subs({symbol: Symbol(word) for symbol, word in words.items()})) + where
    return ""


def _as_in_python(name: re.Match) -> str:
    return f"{name[1]}.shape{name[2]}" if name[2] else name[1]


def _result(function: Callable, given: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """y, and the x that its gradient goes to."""
    x = given["x"].detach().requires_grad_()
    y = function(**{**given, "x": x})
    if not isinstance(y, torch.Tensor):
        raise TypeError(f"it returned {type(y).__name__}, expected a tensor")
    return y, x


def _alike(plain: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether two results are of the same function, however each was rounded."""
    return plain.shape == y.shape and torch.allclose(plain, y.to(plain.dtype), rtol=1e-3, atol=1e-3, equal_nan=True)


def _asks(node: torch.fx.Node) -> bool:
    """Whether the CPU needs a node's values: it is a number, or of a size, that depends on those of a tensor."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    moves = node.target in ("cpu", "numpy") or node.target == "to" and "cpu" in (*node.args, *node.kwargs.values())
    return moves or bool(free_unbacked_symbols(node.meta.get("example_value")))


def _called(node: torch.fx.Node) -> str:
    """The operator and the line it came from."""
    target = node.target
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    return f"{name}, at {_place(node.stack_trace or '')}"


def _place(trace: str) -> str:
    """The line of the submission that a trace ends at."""
    places = re.findall(r'File "[^"]*/submission-[^"]*", line (\d+), in .*\n\s*(.*)', trace)
    return f"line {places[-1][0]}: {places[-1][1]}" if places else "an unknown line"


def _torch_call(node: torch.fx.Node) -> bool:
    """Whether a node is an operator, and not a Python function or someone's own operator, which a graph only calls."""
    if node.op == "call_method":
        return True
    if isinstance(node.target, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        name = str(node.target).replace(".", "::", 1).partition(".")[0]
        return name.startswith(("aten::", "prims::")) and name in _OPERATORS
    return (getattr(node.target, "__module__", None) or "torch").split(".")[0] in (
        "torch", "_operator", "math", "builtins",
    )  # fmt: skip


def no_break(hint: str = "") -> Property:
    """torch.compile(fullgraph=True) takes the function."""

    def broken(trials: Sequence[Trial]) -> str | None:
        return next((_break_described(trial) for trial in trials if trial.facts.get("break")), None)

    return Property("one graph, with no break", broken, "right", hint)


def _break_described(trial: Trial) -> str:
    said = trial.facts["break"]
    why = next((words for sign, words in _BREAKS.items() if sign in said), said.splitlines()[0])
    if (inner := re.search(r"got \w+\((['\"])(.{1,300}?)\1\)\n", said)) and why in said:
        why = inner[2]  # what an operator says of its operands, and not that something was said
    return f"{_place(said)}\n{why}"


def only_torch_operators(name: str) -> Property:
    """Every call runs a graph, and nothing is in it but PyTorch's operators, which a backend can look into."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in (one for one in trials if not one.facts["break"]):
            if not trial.facts["runs"]:
                return f"no graph ran in the call with {trial.where}: the compiler was turned off"
            if foreign := trial.facts["foreign"]:
                return (
                    f"the graph only calls {foreign[0]}, and a backend cannot look into that: use PyTorch's operators"
                )
        return None

    return Property(name, broken, "costs")


def reads_no_value(name: str) -> Property:
    """No operator in the graph makes the CPU wait for a value."""

    def broken(trials: Sequence[Trial]) -> str | None:
        asked = next((trial.facts["asks"][0] for trial in trials if trial.facts["asks"]), None)
        return asked and f"{asked}\non a GPU the CPU waits there for a value, or for how many elements there are"

    return Property(name, broken, "costs")


def compiled_once(name: str, hint: str = "", *, but: Sequence[str] = ()) -> Property:
    """All calls are served by one compiled version, and so would one be that no one makes (see `with_gradient`).

    but: cases that may have a version of their own, such as those with a size of 1. They come last.
    """

    def broken(trials: Sequence[Trial]) -> str | None:
        trials = [one for one in trials if one.case not in but]
        versions = sum(trial.facts["compilations"] for trial in trials)
        if versions <= 1:
            narrow = trials[0].facts.get("narrow")
            return (
                narrow and f"the version that serves these calls is only for {narrow}\nother calls would need another"
            )
        again = next((trial for trial in trials if trial.facts["failed"]), trials[-1])
        condition = f"for {_guard(again)}" if again.facts["failed"] else "under a condition"
        return (
            f"{versions} versions for {len(trials)} calls\nthe first one was made {condition};\n"
            f"the call with {again.where} needed another"
        )

    return Property(name, broken, "costs", hint)


def _guard(trial: Trial) -> str:
    """The condition that failed, such as "step <= 7 (line 4: …)"."""
    condition, *comments = re.sub(r"^\d+/\d+: ", "", trial.facts["failed"]).split("  # ")
    size = re.search(r"size mismatch at index (\d+)\. expected (\d+)", condition)
    condition = f"x.shape[{size[1]}] == {size[2]}" if size else condition.strip()
    place = re.search(r":(\d+) in ", comments[1]) if len(comments) > 1 else None
    return f"{condition} (line {place[1]}: {comments[0].strip()})" if place else condition
