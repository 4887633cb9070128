"""Attention modules over a shared sequence, ring and Ulysses, against the same module in one process in float64."""

import math
import time
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import torch

from kernels.claims import Claim, Number
from kernels.distributed import ContextParallelAttention, all_reduce, attention, counted, run, shard
from kernels.distributed.attention import METHODS
from kernels.distributed.planned import work
from kernels.distributed.ring import zigzag
from kernels.figures import Picture
from kernels.modules import MultiHeadAttention
from kernels.system import Shown, System
from kernels.tolerance import compare

DIM, HEADS, LENGTH, BATCH = 24, 6, 24, 2
RANKS = 3
CASES = [(method, causal) for method in METHODS for causal in (False, True)]


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    """x, and the gradient that comes back."""
    random = torch.Generator().manual_seed(0)
    x, incoming = torch.randn(2, BATCH, LENGTH, DIM, generator=random)
    return x, incoming


def built(kind: Any, *how: Any) -> MultiHeadAttention:
    torch.manual_seed(1)
    return kind(DIM, HEADS, *how)


def step(module: torch.nn.Module, x: torch.Tensor, incoming: torch.Tensor) -> list[torch.Tensor]:
    """The output, the gradient of the input, the gradients of the weights."""
    x = x.detach().requires_grad_()
    y = module(x)
    return [y.detach(), *torch.autograd.grad(y, (x, *module.parameters()), incoming)]


def together(make: Any, device: str) -> list[tuple[list[torch.Tensor], tuple[int, int]]]:
    """On each rank, for each case: its shares of the same, weights summed over all ranks; messages and bytes of attention."""
    found = []
    for method, causal in CASES:
        module = built(make, method, causal).to(device)
        with counted() as sent:
            output, dx, *weights = step(module, *(shard(each, 1).to(device) for each in inputs()))
        found.append(([output, dx, *map(all_reduce, weights)], (sent.messages, sent.bytes)))
    return found


def theory(method: str, numbers: int, ranks: int) -> tuple[int, int]:
    """Messages and bytes of a step, forward and backward, for so many float32 numbers in a rank's share of x."""
    if method == "ring":
        return 3 * (ranks - 1), 4 * (ranks - 1) * 6 * numbers
    return 4 * (ranks - 1), 4 * (ranks - 1) * 8 * numbers // ranks


def check(make: Any, device: str) -> tuple[float, str | None]:
    """Both methods with and without a mask, in one start of three ranks; outputs and all gradients."""
    worst, (x, incoming), found = (
        0.0,
        (one.to(device) for one in inputs()),
        run(together, make, device, ranks=RANKS, device=device),
    )
    for number, (method, causal) in enumerate(CASES):
        alone = built(MultiHeadAttention, causal).to(device)
        baseline = step(alone, x, incoming)
        reference = step(alone.double(), x.double(), incoming.double())
        names = ["output", "gradient of x", *(f"gradient of {name}" for name, _ in alone.named_parameters())]
        for rank in range(RANKS):
            got, sent = found[rank][number]
            case = f"{method}, causal {causal}, rank {rank}"
            if sent != (expected := theory(method, x.numel() // RANKS, RANKS)):
                return (
                    math.inf,
                    f"{case}: sent {sent[1]} bytes in {sent[0]} messages, not {expected[1]} in {expected[0]}",
                )
            here = zigzag(LENGTH, rank, RANKS)
            for index, name in enumerate(names):
                exact, same = (each[index].cpu() for each in (reference, baseline))
                if index < 2:
                    exact, same = exact[:, here], same[:, here]
                ratio, failure = compare(got[index], exact, same, torch.float32)
                if failure:
                    return ratio, f"{case}, {name}: {failure}"
                worst = max(worst, ratio)
    return worst, None


class NotInOrder(ContextParallelAttention):
    """Ulysses puts the shares one behind the other, as if they were runs of neighbours."""

    def attend(self, q, k, v, past):
        with patch.object(
            attention, "zigzag", lambda length, rank, ranks: zigzag(length, 0, 1).reshape(ranks, -1)[rank]
        ):
            return super().attend(q, k, v, past)


class HeadsMixed(ContextParallelAttention):
    """Ulysses gives back heads in another order than they were taken in."""

    def attend(self, q, k, v, past):
        y = super().attend(q, k, v, past)
        return y.roll(self.num_heads // 3, dims=1) if self.method == "ulysses" else y


class GradientsNotSentBack(ContextParallelAttention):
    """Ulysses' exchange is no part of the graph's way back: gradients stay on the rank that has them."""

    def attend(self, q, k, v, past):
        class Forward(attention._AllToAll):
            @staticmethod
            def backward(ctx, gradient):
                attention.all_to_all(gradient)
                return gradient

        with patch.object(attention, "_AllToAll", Forward):
            return super().attend(q, k, v, past)


class OwnKeysAlone(ContextParallelAttention):
    """Each rank attends to its own share: no message, and another function."""

    def attend(self, q, k, v, past):
        return MultiHeadAttention.attend(self, q, k, v, past)


def scaling(device: str) -> Mapping[str, Number]:
    """What of a step is divided by the ranks: the scores of the busiest; and the bytes of a rank by method, beside 2 ranks."""
    found: dict[str, tuple[float, str]] = {}
    for ranks in (2, 8, 64):
        length = 1 << 16
        one = work(length, 0, 1, "zigzag")
        busiest = max(work(length, rank, ranks, "zigzag") for rank in range(ranks))
        found[f"scores of one rank over the busiest of {ranks}"] = one / busiest, "×"
        for method in METHODS:
            sent = theory(method, length * 512 // ranks, ranks)[1]
            found[f"sent by a rank of {ranks}, {method}"] = sent / 2**20, "MiB"
    numbers = {name: Number.exact(value, unit) for name, (value, unit) in found.items()}
    if device == "cuda":  # a rank has a GPU of its own, so that times mean something
        for ranks in (count for count in (1, 2, 4, 8) if count <= torch.cuda.device_count()):
            for method in METHODS:
                each = run(times, method, 1 << 15, ranks=ranks, device=device)[0]
                numbers[f"a step of {ranks} ranks, {method}"] = Number.of(each, "ms")
    return numbers


def times(method: str, length: int, rounds: int = 5) -> list[float]:
    """Milliseconds of steps of this rank's share, forward and backward."""
    module = ContextParallelAttention(512, 8, method, causal=True).cuda().bfloat16()
    x = shard(torch.randn(1, length, 512), 1).cuda().bfloat16()
    found = []
    for _ in range(rounds + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step(module, x, x)
        torch.cuda.synchronize()
        found.append(1e3 * (time.perf_counter() - begin))
    return found[1:]  # the first warms up


def demo(device: str, quick: bool) -> Shown:
    import plotly.graph_objects as go

    worlds, length = (2, 4, 8, 16, 32, 64), 1 << 16
    lines = []
    for method in METHODS:
        sizes = [theory(method, length * 512 // ranks, ranks)[1] / 2**20 for ranks in worlds]
        lines.append(go.Scatter(x=worlds, y=sizes, name=method, mode="lines+markers"))
    layout = {"xaxis": {"title": "ranks", "type": "log"}, "yaxis": {"title": "sent by a rank in a step, MiB"}}
    said = ", ".join(f"{line.name} {line.y[0]:,.0f} to {line.y[-1]:,.0f} MiB" for line in lines)
    return Shown(
        f"an attention module on {RANKS} processes, each with a share of the positions: by a ring, and by all-to-all",
        "outputs and all gradients equal the module of one process in float64, messages and bytes the theory",
        f"by the formula that the counts on {RANKS} ranks equal, a rank of 2 to one of {worlds[-1]} sends in a step of "
        f"{length:,} positions of 512 float32: {said}",
        Picture(go.Figure(lines, layout), f"What a rank sends in a step, from 2 to {worlds[-1]} ranks: {said}."),
    )


SYSTEM = System(
    name="context_parallel",
    summary="an attention module whose sequence several ranks share, by a ring or by all-to-all",
    modules=("kernels.distributed.attention",),
    make=ContextParallelAttention,
    proof="the same module in one process in float64: outputs, gradients of inputs and weights; messages and bytes",
    check=check,
    wrong={
        "shares are taken for neighbours": NotInOrder,
        "heads come back in another order": HeadsMixed,
        "gradients are not sent back": GradientsNotSentBack,
        "each rank sees its own share alone": OwnKeysAlone,
    },
    demo=demo,
    from_torch=("scaled_dot_product_attention, for Ulysses", "the matrix products", "isend and irecv"),
    claims=(
        Claim(
            name="context-parallel-linear",
            text="context parallel linear scaling",
            source="optimization framework, context parallelism",
            conditions="none given",
            verdict="partly",
            reason="the scores of the busiest rank fall with the ranks; what a rank sends falls by all-to-all and hardly by "
            "a ring; no time on several GPUs has been measured",
            evidence="exact on a CPU",
            experiment=scaling,
        ),
    ),
)
