"""The signature of an operation, read off a torch schema: what its parameters and outputs are, and what a backward takes."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any, TypeVar

import torch

Name = TypeVar("Name")


@dataclass(frozen=True)
class Signature:
    """What PyTorch must know of an operation, said once for its kernels of levels 4 and 5.

    A bare kernel takes every parameter, in the schema's order, and returns the output, the tuple of outputs, or None. A bare
    backward takes the gradients of the updated tensors and of the differentiable outputs, then what is saved, then the
    parameters that are no tensors. It returns the gradient of the one input in `gradients`, or a tuple of several, with None
    for an input that is None.

    Args:
        schema: parameters, defaults and outputs in torch's notation, such as
            "(Tensor x, Tensor? weight=None, float eps=1e-5) -> (Tensor y, Tensor lse)". `Tensor(a!) q` is updated in place,
            `-> ()` returns nothing.
        validate: (every parameter) → None; raises the TypeError or ValueError for arguments that are refused, by what they are
            and not by the values in tensors. On a GPU a call like an accepted one is not checked again: see kernels.replay.
        shapes: (every parameter) → the shape and the dtype of each output; by default those of the first parameter. Kernels
            allocate by it (`empty_outputs`), and a backward that is given every input holds gradients and saved outputs to it.
        gradients: the differentiable inputs; none for an operation without a backward.
        passes: of an input that is added to an output, the output's name: its gradient is the output's, as it comes, and the
            backward has nothing to do with it.
        save: the inputs and outputs that the backward is given; of an updated tensor, what it is afterwards.
        non_differentiable: outputs without a gradient, such as an LSE or an index.
        native_backward: the backward in PyTorch operators, for gradients that are differentiated in turn. It is given None
            for saved outputs without a gradient, which are no constants: it computes them again.
        validate_backward: as `validate`, of a backward's arguments; `kernels.rules` says what holds of them anyway, and what by
            default. A gradient looks like its input, which has to be saved if it is unlike the gradients that come in.
    """

    schema: str
    validate: Callable[..., None]
    shapes: Callable[..., Sequence[tuple[Sequence[int], torch.dtype]]] | None = None
    gradients: tuple[str, ...] = ()
    passes: Mapping[str, str] = field(default_factory=dict, hash=False)
    save: tuple[str, ...] = ()
    non_differentiable: tuple[str, ...] = ()
    native_backward: Callable[..., Any] | None = None
    validate_backward: Callable[..., None] | None = None

    def __post_init__(self) -> None:
        for name in (*self.gradients, *self.passes, *self.passes.values(), *self.save, *self.non_differentiable):
            if name not in (*self.types, *self.outputs):
                raise ValueError(f"{name}: is neither a parameter nor an output of the schema {self.schema}")
        if self.gradients and self.native_backward is None:
            raise ValueError("native_backward: got None, expected a function, since there are gradients")

    @cached_property
    def parsed(self) -> torch._C.FunctionSchema:
        return torch._C.parse_schema(f"kernels::operation{self.schema}")

    @cached_property
    def types(self) -> dict[str, str]:
        """The parameters by name, each with its type as a schema has it."""
        long = {arg.name: str(arg.type) for arg in self.parsed.arguments}
        return {n: re.sub(r"List\[(.*)\]", r"\1[]", re.sub(r"Optional\[(.*)\]", r"\1?", t)) for n, t in long.items()}

    @cached_property
    def updated(self) -> tuple[str, ...]:
        return tuple(arg.name for arg in self.parsed.arguments if arg.is_write)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        return tuple(output.name or "y" for output in self.parsed.returns)

    @cached_property
    def differentiable(self) -> tuple[str, ...]:
        """The updated tensors and the outputs whose gradients a backward takes."""
        return tuple(name for name in (*self.updated, *self.outputs) if name not in self.non_differentiable)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Those that are no tensors."""
        return tuple(name for name, kind in self.types.items() if not kind.startswith("Tensor"))

    @cached_property
    def backward_schema(self) -> str:
        taken = [f"Tensor d{name}" for name in self.differentiable]
        taken += [f"{self.types.get(name, 'Tensor')} {name}" for name in (*self.save, *self.parameters)]
        return f"({', '.join(taken)}) -> ({', '.join(self.types[name] for name in self.gradients)})"

    @cached_property
    def python(self) -> inspect.Signature:
        kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
        return inspect.Signature(
            inspect.Parameter(name, kind, default=self.defaults.get(name, empty)) for name in self.types
        )

    @cached_property
    def defaults(self) -> dict[str, Any]:
        return {arg.name: arg.default_value for arg in self.parsed.arguments if arg.has_default_value()}

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.types)

    def empty_outputs(self, *args: Any) -> Any:
        """The outputs that `shapes` tells of, contiguous and uninitialised: one alone, or a tuple."""
        assert self.shapes is not None
        of = next(one for one in args if isinstance(one, torch.Tensor))
        found = tuple(of.new_empty(shape, dtype=dtype) for shape, dtype in self.shapes(*args))
        return found if len(found) > 1 else found[0]

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        """Every parameter, in order. TypeError: one is missing, or given twice, or unknown."""
        given, rest = self.defaults | kwargs, self.names[len(args) :]
        if len(args) <= len(self.names) and kwargs.keys() <= {*rest} <= given.keys():
            return (*args, *[given[name] for name in rest])
        # A call to refuse: this knows what to say, and takes several microseconds, which good calls do not wait for.
        bound = self.python.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args


def picker(names: Sequence[Name], wanted: Iterable[Name]) -> Callable[[tuple], tuple]:
    """A function from a tuple of values called `names` to the tuple of those `wanted`."""
    places = [names.index(name) for name in wanted]
    if len(places) > 1:
        return itemgetter(*places)
    return (lambda values: (values[places[0]],)) if places else (lambda values: ())
