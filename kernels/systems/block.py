"""The transformer block, from the formulas to fused kernels: what each step gives."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from kernels.claims import Claim, Number
from kernels.lens.pytorch.operators import operators
from kernels.machine import here
from kernels.measure import Race, race
from kernels.modules import GroupedQueryAttention, MultiHeadAttention, NaiveAttention, NaiveBlock, TransformerBlock
from kernels.records import ModelRecord, check_model
from kernels.system import Shown, System

SMALL, LARGE = (4, 128, 512), (8, 2_048, 1_024)
"""Batch, length and dim: those of the claims, and those of a model at work."""


def check(make: Callable[..., nn.Module], device: str) -> tuple[float, str | None]:
    """Outputs and gradients of every block, causal or not, with fewer key heads or not, against the formulas in float64."""
    worst = 0.0
    for heads, shared, causal, rotary in ((2, 2, False, False), (4, 2, True, True)):
        arguments = (32, heads, shared, causal, rotary)
        record = ModelRecord("block", _built(make, arguments), _built(NaiveBlock, arguments), _batch, (), {})
        ratio, failure = check_model(record, record.build, device=device)
        if failure:
            return ratio, f"{arguments}: {failure}"
        worst = max(worst, ratio)
    return worst, None


def _built(kind: Callable[..., nn.Module], arguments: tuple) -> Callable[[int], nn.Module]:
    return lambda seed: kind(*arguments)


def _batch(seed: int) -> tuple[torch.Tensor]:
    return (torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(seed)),)


class PostNorm(TransformerBlock):
    def forward(self, x):
        x = self.attention_norm(x + self.attention(x))
        return self.mlp_norm(x + self.mlp(x))


class Parallel(TransformerBlock):
    """Gives the MLP what the attention was given."""

    def forward(self, x):
        return x + self.attention(self.attention_norm(x)) + self.mlp(self.mlp_norm(x))


class OneNorm(TransformerBlock):
    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.attention_norm(x))


class WrittenOut(TransformerBlock):
    """Whole heads at a time, and an operator for each step of the formulas: what is to be fused."""

    def forward(self, x):
        def norm(x, of):
            centred = x - x.mean(-1, keepdim=True)
            return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + of.eps) * of.weight + of.bias

        q, k, v = self.attention.heads(norm(x, self.attention_norm))
        scores = (q @ k.mT) * self.attention.head_dim**-0.5
        weights = scores - scores.amax(-1, keepdim=True)
        weights = torch.exp(weights)
        attended = (weights / weights.sum(-1, keepdim=True)) @ v
        x = x + self.attention.out(attended.transpose(1, 2).reshape(x.shape))
        h = self.mlp.up(norm(x, self.mlp_norm))
        return x + self.mlp.down(0.5 * h * (1 + torch.erf(h * 0.5**0.5)))


@torch.no_grad()
def steps(device: str, shape: tuple[int, int, int], compile: bool, kernels: bool) -> dict[str, Callable]:
    """Ways to compute one block on one input, from an operator a step to kernels of this course; the same weights in all."""
    batch, length, dim = shape
    torch.manual_seed(0)
    x = torch.randn(batch, length, dim, device=device)
    good = TransformerBlock(dim, 8)
    good.attention_norm, good.mlp_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)  # type: ignore[assignment]
    blocks: dict[str, nn.Module] = {"written out": WrittenOut(dim, 8), "fused operators": good}
    if kernels:
        blocks |= {f"norms in {level}": TransformerBlock(dim, 8, level=level) for level in ("triton", "cuda")}
    for block in blocks.values():
        block.to(device).load_state_dict(good.state_dict())
    called: dict[str, Callable] = dict(blocks)
    if compile:
        first: dict[str, Callable] = {"written out": blocks["written out"], "fused operators": good}
        called = first | {"torch.compile": torch.compile(good)} | called
    return {name: torch.no_grad()(lambda fn=fn: fn(x)) for name, fn in called.items()}


def launched(device: str, compile: bool = False) -> dict[str, int]:
    """Operators of one call that launch a kernel, of ours the launches: exact, and the same everywhere."""
    return {name: len(operators(call).calls) for name, call in steps("cpu", (1, 16, 64), False, False).items()}


def raced_steps(device: str, shape: tuple[int, int, int], compile: bool = True) -> Race:
    return race(steps(device, shape, compile, device == "cuda"), device)


def against_written_out(device: str) -> Mapping[str, Number]:
    """How many times as long a block takes when each step is an operator, at the claim's size and at a large one."""
    found = {}
    for shape in (SMALL, LARGE) if device == "cuda" else (SMALL,):
        run = raced_steps(device, shape, device == "cuda")
        for name in list(run.times)[1:]:
            found[f"{name}, {' × '.join(map(str, shape))}"] = run.ratio("written out", name)
    return found


def launches(device: str) -> Mapping[str, Number]:
    counts = launched("cpu")
    less = 100 * (1 - counts["fused operators"] / counts["written out"])
    numbers = {name: Number.exact(count, "operators") for name, count in counts.items()}
    return numbers | {"fewer": Number.exact(less, "%")}


@torch.no_grad()
def attention_raced(device: str) -> Mapping[str, Number]:
    """One call for all heads and positions against a loop over them, and against scores that are written out."""
    found = {}
    for batch, length, dim in (SMALL, LARGE) if device == "cuda" else (SMALL,):
        x = torch.randn(batch, length, dim, device=device)
        one = MultiHeadAttention(dim, 8).to(device)
        contestants: dict[str, Callable] = {
            "written out": torch.no_grad()(lambda x=x, one=one: _written_out(one, x)),
            "one call": torch.no_grad()(lambda x=x, one=one: one(x)),
        }
        if (batch, length, dim) == SMALL:
            loop = NaiveAttention(dim, 8, 8).to(device)
            loop.load_state_dict(one.state_dict())
            contestants["loop"] = torch.no_grad()(lambda x=x, loop=loop: loop(x))
        run = race(contestants, device, rounds=3)
        for name in set(contestants) - {"one call"}:
            found[f"{name}, {batch} × {length} × {dim}"] = run.ratio(name, "one call")
    return dict(sorted(found.items()))


def _written_out(attention: GroupedQueryAttention, x: torch.Tensor) -> torch.Tensor:
    q, k, v = attention.heads(x)
    attended = ((q @ k.mT) * attention.head_dim**-0.5).softmax(-1) @ v
    return attention.out(attended.transpose(1, 2).reshape(x.shape))


@torch.no_grad()
def projections(device: str) -> Mapping[str, Number]:
    """Three products against one of all three's weights."""
    found = {}
    for batch, length, dim in (SMALL, LARGE) if device == "cuda" else (SMALL,):
        x = torch.randn(batch, length, dim, device=device)
        weights = torch.randn(3, dim, dim, device=device) / dim**0.5
        joined = weights.flatten(0, 1)
        contestants: dict[str, Callable] = {
            "three": lambda x=x, weights=weights: torch.cat([F.linear(x, one) for one in weights], dim=-1),
            "one": lambda x=x, joined=joined: F.linear(x, joined),
        }
        found[f"{batch} × {length} × {dim}"] = race(contestants, device).ratio("three", "one")
    return found


def demo(device: str, quick: bool) -> Shown:
    shape = (1, 32, 64) if quick else (1, 128, 256)
    compile = not quick and here(device).compiler is not None and device == "cuda"
    run = raced_steps(device, shape, compile)
    counts = launched(device)
    gave, names = [], list(run.times)
    for before, name in zip(names, names[1:], strict=False):
        gave.append(f"{name}: {run.ratio(before, name).median:.2f}× over {before}")
    left_out = "" if compile else "; torch.compile is left out here, since compiling takes longer than a demo may"
    return Shown(
        f"one block, {' → '.join(names)}{left_out}",
        "outputs and gradients equal the formulas in float64, by the course's error bound",
        f"{counts['written out']} operators written out, {counts['fused operators']} fused; {'; '.join(gave)}",
        run.plot(),
    )


def _claim(name: str, text: str, reason: str, experiment: Any, **others: Any) -> Claim:
    source = others.pop("source", "five-level project")
    conditions = others.pop("conditions", "4 × 128 × 512, on an A100")
    verdict = others.pop("verdict", "not yet measured")
    return Claim(name, text, source, conditions, verdict, reason, experiment=experiment, **others)


SYSTEM = System(
    name="block",
    summary="the transformer block, from an operator a step to fused operators and kernels, launches counted",
    modules=("kernels.modules.block",),
    make=TransformerBlock,
    proof="the formulas in float64, attention a position at a time: outputs and gradients",
    check=check,
    wrong={
        "norms after the sums": PostNorm,
        "attention and MLP side by side": Parallel,
        "one norm for both": OneNorm,
    },
    demo=demo,
    from_torch=("scaled_dot_product_attention", "the matrix products", "GELU"),
    claims=(
        _claim(
            "attention-3.7x",
            "attention 3.7×",
            "no baseline gives it: over attention written out there is far less to gain, over a loop far more",
            attention_raced,
            verdict="refuted",
            evidence="measured",
        ),
        _claim(
            "block-3.2x",
            "block 3.2×",
            "over a block written out, all steps together stay well below it at both sizes",
            against_written_out,
            verdict="refuted",
            evidence="measured",
        ),
        _claim(
            "linear-2.5x",
            "linear projections 2.5×",
            "one product instead of three saves two launches, which shows at small sizes, and there by less; at large ones the "
            "arithmetic is the same",
            projections,
            verdict="refuted",
            evidence="measured",
        ),
        _claim(
            "fusion-launch-overhead",
            "attention and FFN in one kernel: −40–60 % launch overhead",
            "fused operators launch that many fewer kernels than steps written out; a single kernel was not built",
            launches,
            source="optimization framework, attention fusion",
            conditions="none given",
            verdict="partly",
            evidence="exact on a CPU",
        ),
    ),
)
