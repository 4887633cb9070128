"""Is a module right: its outputs and gradients against its copy in float64, and that copy's gradients against differences."""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from rich import box
from rich.table import Table
from torch import nn

from kernels.tolerance import compare

SAMPLES = 4  # of what rounding may do
STEP = 1e-5  # of a difference, times the size of what is moved
CURVATURE = 1e-4  # of a difference, that is not held against a gradient


@dataclass(frozen=True)
class Validated:
    """The errors of a module that is right, as ratios of what is allowed: by output, and by the input or parameter whose
    gradient it is. Shows itself as a table."""

    errors: dict[str, float]

    def __rich__(self) -> Table:
        table = Table(title="error, of what is allowed", box=box.SIMPLE_HEAD)
        table.add_column("of")
        table.add_column("ratio", justify="right")
        for name, ratio in self.errors.items():
            table.add_row(name, f"{ratio:.2f}")
        return table

    def _repr_mimebundle_(self, **kwargs: object) -> dict:
        return self.__rich__()._repr_mimebundle_(include=(), exclude=())


def validate(module: nn.Module, *args: Any, reference: nn.Module | None = None) -> Validated:
    """Hold a module against itself in float64, forward and backward; its state is not changed.

    Three things are required. The gradients of the float64 copy are those of its outputs, by central differences. Outputs and
    gradients of the module are those of the copy within the course's bound (`kernels.tolerance`); the error that it allows
    is what comes of parameters, inputs, and the outputs of inner modules that are rounded to the module's dtype: more is
    lost within a module, by cancellation or in a smaller dtype. And what it returns has the copy's shapes.

    A mistake in the formula, which the copy has as well, shows only against another module: `reference`, which computes the
    same in another way, with the same state dict, and takes the copy's place.

    Args:
        module: of one floating dtype, which returns a tensor or several. Without dropout, or in evaluation.
        args: what it takes. Gradients of tensors of a floating dtype are validated too.

    Raises:
        ArithmeticError: the module is wrong; what is, and by how much.
        TypeError: no modules.
        ValueError: two calls give different results; there are no tensors to validate; a state dict of another kind.
    """
    for name, one in {"module": module, "reference": reference or module}.items():
        if not isinstance(one, nn.Module):
            raise TypeError(f"{name}: got {type(one).__name__}, expected a torch.nn.Module")
    floating = [one for one in _tensors((args, list(module.parameters()))) if one.is_floating_point()]
    if not floating:
        raise ValueError("module: neither it nor its arguments have tensors of a floating dtype")
    dtype = floating[-1].dtype
    twin = copy.deepcopy(module if reference is None else reference)
    if (got := _shapes(twin)) != (expected := _shapes(module)):
        names = ", ".join(sorted({name for name, _ in got.items() ^ expected.items()}))
        raise ValueError(f"reference: its state dict differs from the module's in {names}")
    twin.load_state_dict(module.state_dict())
    results = Results(copy.deepcopy(module), args)
    again = Results(copy.deepcopy(module), args)
    if any(
        not torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(results.outputs, again.outputs, strict=True)
    ):
        raise ValueError("module: two calls give different results; call module.eval() if there is dropout in it")
    exact = in_float64(twin)
    doubled = torch.utils._pytree.tree_map(_doubled, args)
    expected_results = Results(copy.deepcopy(exact), doubled)
    if reference is None:
        _hold_against_differences(exact, doubled, expected_results)
    rounded = [Results(rounds(exact, dtype, seed), doubled, seed, dtype).found for seed in range(SAMPLES)]
    errors, failures = {}, []
    for name, expected_one in expected_results.found.items():
        got_one = results.found.get(name)
        if expected_one is None:
            if got_one is None:
                continue
            expected_one = torch.zeros_like(got_one, dtype=torch.float64)
        of = got_one.dtype if got_one is not None else dtype
        allowed = torch.stack([(expected_one if r[name] is None else r[name]) - expected_one for r in rounded])
        baseline = (expected_one + allowed.abs().amax(0)).to(expected_one.dtype)
        if name.startswith("gradient"):  # where a kink is crossed a row is off, and not the same one in every sample
            got_one = None if got_one is None else got_one.flatten()
            expected_one, baseline = expected_one.flatten(), baseline.flatten()
        errors[name], failure = compare(got_one, expected_one, baseline, of)
        failures += [f"{name}: {failure}"] if failure else []
    if failures:
        raise ArithmeticError(f"{type(module).__name__} is wrong: {'; '.join(failures)}")
    return Validated(errors)


def in_float64(module: nn.Module) -> nn.Module:
    """A copy in float64, where the course's modules compute by PyTorch's operators: their kernels take smaller dtypes."""
    exact = copy.deepcopy(module).double()
    for one in exact.modules():
        if hasattr(one, "level"):
            setattr(one, "level", "native")  # noqa: B010
    return exact


class Results:
    """Outputs of a call, and gradients of floating inputs and parameters, given the same random gradients in every dtype."""

    def __init__(
        self, module: nn.Module, args: tuple, seed: int | None = None, dtype: torch.dtype | None = None
    ) -> None:
        args = torch.utils._pytree.tree_map(_leaf, args)
        taken = [one for one in _tensors(args) if one.requires_grad]
        self.leaves = {f"input {number}": one for number, one in enumerate(taken)} | _trained(module)
        given = args if seed is None else torch.utils._pytree.tree_map(lambda one: _rounded(one, dtype, seed), args)
        outputs = [one for one in _tensors(module(*given))]
        if not outputs:
            raise ValueError("module: it returns no tensors")
        random = torch.Generator().manual_seed(1)
        incoming = [torch.randn(one.shape, generator=random).bfloat16().to(one) for one in outputs]
        pairs = [pair for pair in zip(outputs, incoming, strict=True) if pair[0].requires_grad]
        self.outputs = [one.detach() for one in outputs]
        self.size = sum(float((out.detach() * of).abs().sum()) for out, of in pairs)
        self.loss = sum(float((out.detach() * of).sum()) for out, of in pairs)
        self.gradients: dict[str, torch.Tensor | None] = dict.fromkeys(self.leaves)
        if pairs and self.leaves:
            outputs, incoming = (list(of) for of in zip(*pairs, strict=True))
            found = torch.autograd.grad(outputs, list(self.leaves.values()), incoming, allow_unused=True)
            self.gradients = dict(zip(self.leaves, found, strict=True))
        self.found: dict[str, Any] = {f"output {number}": one for number, one in enumerate(self.outputs)}
        self.found |= {f"gradient of {name}": one for name, one in self.gradients.items()}


class _Round(torch.autograd.Function):
    """Rounds a value, and the gradient that comes back: to neighbours in a dtype, at random."""

    @staticmethod
    def forward(ctx, x, dtype, seed):
        ctx.of = dtype, seed
        return _noisy(x, dtype, seed)

    @staticmethod
    def backward(ctx, gradient):
        return _noisy(gradient, *ctx.of), None, None


def rounds(module: nn.Module, dtype: torch.dtype, seed: int) -> nn.Module:
    """A copy whose parameters, and whose inner modules' outputs and gradients, are rounded at random."""
    module = copy.deepcopy(module)
    for number, parameter in enumerate(module.parameters()):
        parameter.data.copy_(_noisy(parameter.data, dtype, 1_000 * seed + number))
    for inner in module.modules():
        if inner is not module:
            inner.register_forward_hook(
                lambda inner, args, output: torch.utils._pytree.tree_map(lambda o: _rounded(o, dtype, seed), output)
            )
    return module


def _rounded(one: Any, dtype: Any, seed: int) -> Any:
    floating = isinstance(one, torch.Tensor) and one.is_floating_point()
    return _Round.apply(one, dtype, seed) if floating else one


def _noisy(x: torch.Tensor, dtype: torch.dtype, seed: int) -> torch.Tensor:
    random = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(x.device)
    units = 4 if dtype == torch.float32 else 1  # float32's arithmetic rounds at every step, as in kernels.tolerance
    return x * (1 + units * torch.finfo(dtype).eps * (2 * random - 1))


def _hold_against_differences(exact: nn.Module, args: tuple, results: Results) -> None:
    """ArithmeticError where a gradient is not the slope of the outputs, along itself and along a random direction."""
    random = torch.Generator().manual_seed(2)
    for name, leaf in results.leaves.items():
        gradient = results.gradients[name]
        aimless = torch.randn(leaf.shape, generator=random, dtype=torch.float64).to(leaf.device)
        for direction in (aimless, gradient):
            if direction is None or not float(direction.norm()) > 0:
                continue
            step = STEP * max(float(leaf.detach().norm()), 1e-3 * math.sqrt(leaf.numel())) / float(direction.norm())
            above, below = (_moved(exact, args, name, sign * step * direction).loss for sign in (1, -1))
            slope = (above - below) / (2 * step)
            said = 0.0 if gradient is None else float((gradient * direction).sum())
            noise = 100 * torch.finfo(torch.float64).eps * results.size / step
            if not abs(slope - said) <= CURVATURE * max(abs(slope), abs(said)) + noise:
                missing = "there is none" if gradient is None else f"its slope is {said:.6g}"
                raise ArithmeticError(f"gradient of {name}: {missing}, and differences of the outputs give {slope:.6g}")


def _moved(exact: nn.Module, args: tuple, name: str, by: torch.Tensor) -> Results:
    module, inputs = copy.deepcopy(exact), torch.utils._pytree.tree_map(_leaf, args)
    taken = [one for one in _tensors(inputs) if one.requires_grad]
    leaf = ({f"input {number}": one for number, one in enumerate(taken)} | _trained(module))[name]
    leaf.data.add_(by)
    return Results(module, inputs)


def _trained(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: one for name, one in module.named_parameters() if one.requires_grad}


def _shapes(module: nn.Module) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in module.state_dict().items()}


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    return (one for one in torch.utils._pytree.tree_leaves(tree) if isinstance(one, torch.Tensor))


def _leaf(one: Any) -> Any:
    if not isinstance(one, torch.Tensor):
        return one
    return one.detach().clone().requires_grad_(one.is_floating_point())


def _doubled(one: Any) -> Any:
    return one.double() if isinstance(one, torch.Tensor) and one.is_floating_point() else one
