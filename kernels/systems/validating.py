"""Modules validated: right ones pass, and every wrong one of a collection is rejected."""

import copy
import math
from collections.abc import Callable, Mapping

import torch
from torch import nn

from kernels.claims import Claim, Number
from kernels.modules import LayerNorm, NaiveBlock, TransformerBlock
from kernels.system import Shown, System, touched
from kernels.validation import Validated, in_float64, validate


class Cancels(nn.Linear):
    """Takes the variance as a difference of two large numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x) + 100
        variance = (y * y).mean(-1, keepdim=True) - y.mean(-1, keepdim=True) ** 2
        return (y - y.mean(-1, keepdim=True)) * torch.rsqrt(variance + 1e-5)


class Halved(nn.Linear):
    """Computes in half the bits."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).half().to(x.dtype)


class Detached(nn.Linear):
    """Lets no gradient through its weight's scale."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * self.weight.detach().norm()


class _Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * -x.cos()


class WrongSign(nn.Linear):
    """With a backward of its own, of the wrong sign."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Sine.apply(super().forward(x))


class OneNorm(TransformerBlock):
    """Takes the first norm twice, which another block alone can tell."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.attention_norm(x))


def check(make: Callable[..., Validated], device: str) -> tuple[float, str | None]:
    """Blocks, convolutions with a batch norm and kernels of ours pass; five wrong modules do not."""
    torch.manual_seed(0)
    x, images = torch.randn(2, 6, 16, device=device), torch.randn(2, 3, 8, 8, device=device)
    convolutions = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3))
    kernel = LayerNorm(16, level="triton" if device == "cuda" else "cuda")
    worst = 0.0
    right: list[tuple[nn.Module, torch.Tensor, nn.Module | None]] = [
        (TransformerBlock(16, 2), x, None),
        (TransformerBlock(16, 2, causal=True), x, NaiveBlock(16, 2, causal=True)),
        (convolutions, images, None),
        (kernel, x, None),
        (nn.Linear(16, 16).bfloat16(), x.bfloat16(), None),
    ]
    for module, args, twin in right:
        before = copy.deepcopy(module.to(device))
        try:
            found = make(module, args, reference=twin and twin.to(device))
        except ArithmeticError as error:
            return math.inf, f"{type(module).__name__} is right, and is rejected: {error}"
        if failure := touched(before, module):
            return math.inf, f"{type(module).__name__}: {failure}"
        worst = max([worst, *found.errors.values()])
    block = OneNorm(16, 2)
    nn.init.normal_(block.attention_norm.weight)
    wrong: list[tuple[nn.Module, nn.Module | None]] = [
        (kind(16, 16), None) for kind in (Cancels, Halved, Detached, WrongSign)
    ]
    for module, twin in [*wrong, (block, TransformerBlock(16, 2))]:
        try:
            make(module.to(device), x, reference=twin and twin.to(device))
        except ArithmeticError:
            continue
        return math.inf, f"{type(module).__name__} is wrong, and passes"
    return worst, None


def forward_alone(module: nn.Module, *args: torch.Tensor, reference: nn.Module | None = None) -> Validated:
    with torch.no_grad():
        exact = in_float64(reference or module)
        exact.load_state_dict(module.state_dict())
        got, expected = module(*args), exact(*(one.double() for one in args))
    if not torch.allclose(got.double(), expected, rtol=1e-2, atol=1e-2):
        raise ArithmeticError("the output differs")
    return Validated({"output 0": 0.0})


def against_itself(module: nn.Module, *args: torch.Tensor, reference: nn.Module | None = None) -> Validated:
    """Ignores the other module."""
    return validate(module, *args)


def rejects_rounding(module: nn.Module, *args: torch.Tensor, reference: nn.Module | None = None) -> Validated:
    """Allows no error at all."""
    exact = in_float64(module)(*(one.double() for one in args))
    if not torch.equal(module(*args).double(), exact):
        raise ArithmeticError("the output differs")
    return validate(module, *args, reference=reference)


class Normalised(nn.Linear):
    """What Cancels means to be."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.layer_norm(super().forward(x), (self.out_features,))


class Scaled(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * self.weight.norm()


class Sine(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).sin()


def on_random_inputs(device: str) -> Mapping[str, Number]:
    """How many of five wrong modules are rejected: by their outputs for five random inputs, within two tolerances, and by
    `validate`."""
    torch.manual_seed(0)
    pairs = ((Cancels, Normalised), (Halved, nn.Linear), (Detached, Scaled), (WrongSign, Sine))
    modules: list[tuple[nn.Module, nn.Module]] = [(wrong(16, 16), right(16, 16)) for wrong, right in pairs]
    modules.append((OneNorm(16, 2), TransformerBlock(16, 2)))
    rejected = dict.fromkeys(("outputs within 1e-2", "outputs within 1e-4", "validate"), 0)
    for wrong, right in modules:
        right.load_state_dict(wrong.state_dict())
        for tolerance in (1e-2, 1e-4):
            inputs = [torch.randn(2, 6, 16) for _ in range(5)]
            same = all(torch.allclose(wrong(x), right(x), tolerance, tolerance) for x in inputs)
            rejected[f"outputs within {tolerance:.0e}".replace("e-0", "e-")] += not same
        try:
            validate(wrong, inputs[0], reference=right)
        except ArithmeticError:
            rejected["validate"] += 1
    return {name: Number.exact(count, f"of {len(modules)}") for name, count in rejected.items()}


def leaves_gradients(module: nn.Module, *args: torch.Tensor, reference: nn.Module | None = None) -> Validated:
    found = validate(module, *args, reference=reference)
    module(*args).sum().backward()
    return found


def demo(device: str, quick: bool) -> Shown:
    dim = 32 if quick else 128
    block, x = TransformerBlock(dim, 4).to(device), torch.randn(2, 8, dim, device=device)
    found = validate(block, x)
    try:
        validate(WrongSign(dim, dim).to(device), x)
    except ArithmeticError as error:
        said = str(error)
    worst = max(found.errors, key=lambda name: found.errors[name])
    return Shown(
        f"a block and a layer with a wrong backward, of which validate says: {said}",
        "right modules pass; cancellation, lost bits, lost and wrong gradients and a wrong formula are rejected",
        f"{len(found.errors)} outputs and gradients; the largest error is {found.errors[worst]:.2f} of what is allowed, "
        f"{worst}",
    )


SYSTEM = System(
    name="validating",
    summary="a module against its float64 copy, forward and backward, with the course’s error bound",
    modules=("kernels.validation",),
    make=validate,
    proof="modules that are known to be right, and others that are known to be wrong",
    check=check,
    wrong={
        "the output alone, with a loose tolerance": forward_alone,
        "never against another module": against_itself,
        "no rounding is allowed": rejects_rounding,
        "the module has gradients afterwards": leaves_gradients,
    },
    demo=demo,
    from_torch=("autograd",),
    claims=(
        Claim(
            name="random-inputs",
            text="is correct: check against reference torch operators n_correctness times on randomized inputs",
            source="KernelBench, README (Ouyang et al., 2025)",
            conditions="outputs alone, within a tolerance",
            verdict="partly",
            reason="within the wider tolerance every one of these wrong modules passes, within the narrower those that lose "
            "bits do not; a wrong gradient passes both, as does a block whose second norm is its first, new as both are",
            evidence="exact on a CPU",
            experiment=on_random_inputs,
            devices=("cpu",),
        ),
        Claim(
            name="987-tests",
            text="987 tests pass",
            source="optimization framework",
            conditions="none given",
            verdict="not measurable here",
            reason="a count of tests says nothing that could be measured",
        ),
    ),
)
