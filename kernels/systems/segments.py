"""Segments with carried memory, against attention under the mask that says the same."""

import math
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import nn

from kernels.claims import Claim, Number
from kernels.figures import Picture
from kernels.memory import track
from kernels.memory.segments import Segmented, chunked
from kernels.system import Shown, System


class Attention(nn.Module):
    """One head; x attends to what lies before it in the context, and to itself."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))

    def forward(self, x: torch.Tensor, context: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        if mask is None:
            before = context.shape[1] - x.shape[1]
            mask = torch.ones(x.shape[1], context.shape[1], dtype=torch.bool, device=x.device).tril(before)
        return F.scaled_dot_product_attention(self.q(x), self.k(context), self.v(context), attn_mask=mask)


def seen(length: int, segment: int, carry: int) -> torch.Tensor:
    """Which position sees which: what a segment sees, by the definition."""
    row, column = torch.arange(length)[:, None], torch.arange(length)[None]
    first = row // segment * segment
    return (column <= row) & (column >= first - carry)


def check(make: Callable[..., nn.Module], device: str) -> tuple[float, str | None]:
    """Outputs against attention with the mask, in float64; the gradient of the first segment, which none later reaches; and
    the exact chunks against the causal mask."""
    torch.manual_seed(0)
    attention = Attention(16).to(device).double()
    for length, segment, carry in ((20, 5, 0), (20, 5, 3), (22, 5, 12), (7, 16, 4)):
        x = torch.randn(2, length, 16, dtype=torch.float64).to(device).requires_grad_()
        made = make(attention, segment, carry)
        got, again = made(x), made(x)
        expected = attention(x, x, seen(length, segment, carry).to(device))
        where = f"length {length}, segment {segment}, carry {carry}"
        if got.shape != expected.shape or not torch.allclose(got, expected):
            return math.inf, f"{where}: differs from attention with the mask that says the same"
        if not torch.equal(got, again):
            return math.inf, f"{where}: a second call sees what the first one carried"
        later = torch.autograd.grad(got[:, segment:].sum(), x, allow_unused=True)[0] if length > segment else None
        if later is not None and later[:, :segment].any():
            return math.inf, f"{where}: gradients of later segments reach the first"
        exact = chunked(attention, x, segment)
        causal = attention(x, x, torch.ones(length, length, dtype=torch.bool, device=device).tril())
        if not torch.allclose(exact, causal):
            return math.inf, f"{where}: the chunks differ from attention to all positions before"
    return 0.0, None


class OneFewer(Segmented):
    def __init__(self, attention, segment, carry):
        super().__init__(attention, segment, max(carry - 1, 0))


class RemembersCalls(Segmented):
    """Begins with what the call before carried, as if both were one sequence."""

    def forward(self, x):
        before = getattr(self, "before", x[:, :0])
        self.before = x[:, max(0, x.shape[1] - self.carry) :].detach()
        return super().forward(torch.cat([before, x], dim=1))[:, before.shape[1] :]


class ForgetsWhatWasCarried(Segmented):
    """Carries of the last segment alone, also where the carry is longer."""

    def forward(self, x):
        carried, outputs = x[:, :0], []
        for part in x.split(self.segment, dim=1):
            outputs.append(self.attention(part, torch.cat([carried, part], dim=1)))
            carried = part[:, max(0, part.shape[1] - self.carry) :].detach()
        return torch.cat(outputs, dim=1)


class KeepsGradients(Segmented):
    def forward(self, x):
        starts = range(0, x.shape[1], self.segment)
        parts = [(x[:, s : s + self.segment], x[:, max(0, s - self.carry) : s + self.segment]) for s in starts]
        return torch.cat([self.attention(part, context) for part, context in parts], dim=1)


class Whole(nn.Module):
    """Attention to all positions at once, its scores written out."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.attention.q(x), self.attention.k(x), self.attention.v(x)
        return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v


def peaks(lengths: tuple[int, ...]) -> dict[str, list[float]]:
    """Bytes at the peak of a step beyond one number a position: by what computes it, and by length."""
    found: dict[str, list[float]] = {"scores written out": [], "segments of 256": []}
    for length in lengths:
        x = torch.empty(1, length, 64)
        found["scores written out"].append(track(Whole(Attention(64)), x).bytes)
        found["segments of 256"].append(track(Segmented(Attention(64), 256, 256), x).bytes)
    return found


def growth(device: str) -> Mapping[str, Number]:
    """The exponent of the length in the peak of a step, between 2,048 and 4,096 positions."""
    found = {name: math.log2(two / one) for name, (one, two) in peaks((2_048, 4_096)).items()}
    return {name: Number.exact(value, "of the length, as a power") for name, value in found.items()}


def demo(device: str, quick: bool) -> Shown:
    import plotly.graph_objects as go

    lengths = (512, 1_024, 2_048) if quick else (512, 1_024, 2_048, 4_096)
    found = peaks(lengths)
    lines = [
        go.Scatter(x=lengths, y=[size / 2**20 for size in sizes], name=name, mode="lines+markers")
        for name, sizes in found.items()
    ]
    layout = {"xaxis": {"title": "positions"}, "yaxis": {"title": "peak of a step, MiB", "rangemode": "tozero"}}
    said = ", ".join(f"{name} {sizes[-1] / 2**20:.1f} MiB" for name, sizes in found.items())
    return Shown(
        "attention in segments of 256 that carry 256 positions, beside attention with its scores written out",
        "outputs equal attention under the mask that says the same; no gradient crosses a segment’s border",
        f"peak of a step at {lengths[-1]:,} positions: {said}",
        Picture(go.Figure(lines, layout), f"Peak of a step by length; at {lengths[-1]:,} positions: {said}."),
    )


SYSTEM = System(
    name="segments",
    summary="long sequences in segments that carry some positions of those before",
    modules=("kernels.memory.segments",),
    make=Segmented,
    proof="attention in float64 under the mask of what each position sees; chunks against the causal mask",
    check=check,
    wrong={
        "one position fewer is carried": OneFewer,
        "what was carried before is forgotten": ForgetsWhatWasCarried,
        "gradients cross the border": KeepsGradients,
        "a call sees the one before": RemembersCalls,
    },
    demo=demo,
    from_torch=("scaled_dot_product_attention",),
    claims=(
        Claim(
            name="segments-linear",
            text="long sequences with O(N) memory",
            source="optimization framework, long sequences",
            conditions="segments of a fixed length",
            verdict="confirmed",
            reason="the peak grows with the length, not its square; but each position sees less: another function",
            evidence="exact on a CPU",
            experiment=growth,
            devices=("cpu",),
        ),
    ),
)
