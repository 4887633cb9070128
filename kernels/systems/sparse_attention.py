"""Block-sparse attention: proved against dense attention under the chosen blocks, its work counted, its loss measured."""

import math
from collections.abc import Mapping
from statistics import quantiles

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from kernels.claims import Claim, Number
from kernels.figures import Picture
from kernels.masks import SparseAttention
from kernels.masks.recall import Recall, accuracy, trained
from kernels.masks.sparse import CHOICES
from kernels.measure import race
from kernels.system import Shown, System
from kernels.tolerance import compare

DIM, HEADS, BLOCK, LENGTH = 24, 3, 4, 32


def dense(module: SparseAttention, x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """All scores are computed; then those of other blocks are masked. A learned gate's gradient is its softmax's."""
    q, k, v = module.heads(x)
    count = x.shape[1] // module.block
    blocks = torch.zeros(*chosen.shape[:3], count, dtype=x.dtype, device=x.device).scatter(-1, chosen, 1.0)
    if module.choose == "learned":
        means = [one.view(*one.shape[:2], count, module.block, -1).mean(3) for one in (q, k)]
        scores = module.gate_q(means[0]) @ module.gate_k(means[1]).transpose(-2, -1) / math.sqrt(module.head_dim)
        if module.causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
        shares = scores.softmax(-1)
        blocks = blocks * (1 + (shares - shares.detach()))
    weights = blocks.repeat_interleave(module.block, 2).repeat_interleave(module.block, 3)
    if module.causal:
        weights = weights.tril()
    scores = (q @ k.transpose(-2, -1)) / math.sqrt(module.head_dim)
    shares = scores.exp() * weights  # without a maximum: these scores are small
    return module.out((shares / shares.sum(-1, keepdim=True) @ v).transpose(1, 2).reshape(x.shape))


def check(make: type[SparseAttention], device: str) -> tuple[float, str | None]:
    """Each way to choose, causal and not: which blocks, outputs, gradients, and the FLOPs by the density."""
    worst = 0.0
    for choose, causal in ((choose, causal) for choose in CHOICES for causal in (False, True)):
        drawn = torch.Generator().manual_seed(len(choose))
        torch.manual_seed(0)
        module = make(DIM, HEADS, 0.375, choose, BLOCK, causal).to(device)
        x = torch.randn(2, LENGTH, DIM, generator=drawn).to(device)
        q, k, v = module.heads(x)
        chosen, gate = module.chosen(q, k)
        failure = wrong_choice(module, q, k, chosen)
        if failure:
            return math.inf, f"{choose}, causal {causal}: {failure}"
        if choose == "learned" and (gate is None or not torch.equal(gate.detach(), torch.ones_like(gate))):
            return math.inf, "the learned gate's weights are not one in the forward"
        found = []
        for call, dtype in ((None, torch.float32), (dense, torch.float64), (dense, torch.float32)):
            module = module.to(dtype)
            inputs = x.detach().to(dtype).requires_grad_()
            output = call(module, inputs, chosen) if call else module(inputs)
            sent = torch.randn(output.shape, generator=torch.Generator().manual_seed(1)).to(output)
            leaves = [inputs, *module.parameters()]
            found.append([output.detach(), *torch.autograd.grad(output, leaves, sent)])
        for what, got, exact, plain in zip(("output", "dx", *dict(module.named_parameters())), *found, strict=True):
            ratio, failure = compare(got, exact, plain, torch.float32)
            if failure:
                return ratio, f"{choose}, causal {causal}, {what}: {failure}"
            worst = max(worst, ratio)
        for length in (LENGTH, 2 * LENGTH):
            counted = flops(make(DIM, HEADS, 0.25, choose, BLOCK, causal).to(device), length)
            expected = 4 * HEADS * length * (length // 4) * (DIM // HEADS)
            if counted != expected:
                return math.inf, f"{choose}: {counted} FLOPs at length {length}, and a quarter of all are {expected}"
    return worst, None


def flops(module: SparseAttention, length: int) -> int:
    """Of the two products of a sequence's attention, counted as they run."""
    q, k, v = module.heads(torch.zeros(1, length, module.dim, device=module.out.weight.device))
    chosen, gate = module.chosen(q, k)
    with FlopCounterMode(display=False) as counter:
        module.attend(q, k, v, chosen, gate)
    return counter.get_total_flops()


@torch.no_grad()
def wrong_choice(module: SparseAttention, q: torch.Tensor, k: torch.Tensor, chosen: torch.Tensor) -> str | None:
    """What is wrong with the blocks that were chosen: found anew, a block of queries at a time."""
    if not torch.equal(chosen, module.chosen(q, k)[0]):
        return "the same queries and keys get other blocks the second time"
    count = q.shape[2] // BLOCK
    for b, h, i in ((b, h, i) for b in range(len(q)) for h in range(HEADS) for i in range(count)):
        got = chosen[b, h, i].tolist()
        if len(set(got)) != len(got) or len(got) != round(0.375 * count):
            return f"block {(b, h, i)} reads {got}"
        seen = set(got) - set(range(i + 1, count)) if module.causal else set(got)
        there = list(range(i + 1 if module.causal else count))
        if module.causal and i not in seen or len(seen) != min(len(got), len(there)):
            return f"block {(b, h, i)} reads {got}"
        others = [one for one in there if one != i] if module.causal else there
        mean = q[b, h, i * BLOCK : (i + 1) * BLOCK].mean(0)
        means = [k[b, h, j * BLOCK : (j + 1) * BLOCK].mean(0) for j in range(count)]
        if module.choose == "local":
            value = {j: -abs(j - i) - (0.5 if j > i else 0) for j in others}
        elif module.choose == "random":
            continue
        else:
            gates = (module.gate_q, module.gate_k) if module.choose == "learned" else (nn.Identity(), nn.Identity())
            value = {j: float(gates[0](mean) @ gates[1](means[j])) for j in others}
        room = len(seen) - module.causal
        best = sorted(others, key=lambda j: -value[j])[:room]
        if not set(best) <= seen:
            return f"block {(b, h, i)} reads {sorted(seen)}, and the best are {sorted(best)}"
    if module.choose == "random" and len({tuple(one) for one in chosen.sort().values.flatten(0, 2).tolist()}) < count:
        return "blocks drawn at random are the same everywhere"
    return None


class DenseThenMasked(SparseAttention):
    """The same numbers, and the work of all blocks."""

    def attend(self, q, k, v, chosen, gate=None):
        count = q.shape[2] // self.block
        weights = torch.zeros(*chosen.shape[:3], count, dtype=q.dtype, device=q.device)
        weights = weights.scatter(-1, chosen, torch.ones_like(chosen, dtype=q.dtype) if gate is None else gate)
        mask = weights.log().repeat_interleave(self.block, 2).repeat_interleave(self.block, 3)
        if self.causal:
            mask = mask.masked_fill(torch.ones_like(mask, dtype=torch.bool).triu(1), -math.inf)
        return (q @ k.transpose(-2, -1) / math.sqrt(self.head_dim) + mask).softmax(-1) @ v


class CausalByBlocks(SparseAttention):
    """Leaves later blocks out, and forgets the later positions of the queries' own."""

    def attend(self, q, k, v, chosen, gate=None):
        causal, self.causal = self.causal, False
        try:
            return super().attend(q, k, v, chosen, gate)
        finally:
            self.causal = causal


class SeparateSoftmax(SparseAttention):
    """Averages the attention to each block, where all blocks share a softmax."""

    def attend(self, q, k, v, chosen, gate=None):
        each = [super(SeparateSoftmax, self).attend(q, k, v, one, gate and None) for one in chosen.split(1, -1)]
        return torch.stack(each).nan_to_num().mean(0)


class WorstBlocks(SparseAttention):
    def chosen(self, q, k):
        return super().chosen(-q, k)


class DeadGate(SparseAttention):
    """Selects by the gate, which gets no gradient."""

    def chosen(self, q, k):
        blocks, gate = super().chosen(q, k)
        return blocks, gate if gate is None else gate.detach() + 0 * gate


class KeysChoose(SparseAttention):
    """Takes the blocks of queries that each block of keys would like."""

    def chosen(self, q, k):
        return super().chosen(k, q)


def quality(device: str) -> Mapping[str, Number]:
    """Accuracy of recall at a tenth of the blocks, each way trained as it is used; and of the dense model's own weights."""
    steps = 400
    models = {"dense": trained(1.0, "topk", device, steps)}
    models |= {choose: trained(0.1, choose, device, steps) for choose in CHOICES}
    models["topk, put in after training"] = late = Recall(0.1, "topk").to(device)
    late.load_state_dict(models["dense"].state_dict())
    found = {}
    for name, model in models.items():
        low, median, high = quantiles(accuracy(model, device))
        found[f"recalled, {name}"] = Number(median, low, high, "%")
    return found


def work(length: int) -> dict[str, Number]:
    """How many times fewer FLOPs, counted, a tenth of the blocks takes."""
    every, tenth = (flops(SparseAttention(64, 1, density, "local"), length) for density in (1.0, 0.1))
    ratio = every / tenth
    return {f"FLOPs saved, {length} positions": Number(ratio, ratio, ratio, "×")}


def speed(length: int) -> Number:
    """flex_attention with a tenth of the blocks, chosen at random, against dense SDPA: 16 heads of 64, bfloat16, forward."""
    from torch.nn.attention.flex_attention import BlockMask, flex_attention

    q, k, v = (torch.randn(1, 16, length, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    count = length // 128
    kept = max(1, round(0.1 * count))
    chosen = torch.rand(1, 16, count, count, device="cuda").topk(kept).indices.sort().values.int()
    rest = torch.zeros(1, 16, count, count, dtype=torch.int32, device="cuda")
    rest[..., :kept] = chosen
    many, none = torch.full((1, 16, count), kept, dtype=torch.int32, device="cuda"), torch.zeros_like(rest)
    mask = BlockMask.from_kv_blocks(none[..., 0], none, many, rest, BLOCK_SIZE=128)
    flex = torch.compile(flex_attention, dynamic=False)
    with torch.no_grad():  # they differ in what they compute, so a sum of nothing stands for their results
        calls = {
            "dense": lambda: F.scaled_dot_product_attention(q, k, v)[..., :0],
            "a tenth": lambda: flex(q, k, v, block_mask=mask)[..., :0],
        }
        return race(calls, "cuda").ratio("dense", "a tenth")


def experiment(device: str) -> Mapping[str, Number]:
    found = work(5120)
    if device == "cuda":
        found |= {f"time, {length} positions": speed(length) for length in (8_192, 16_384, 32_768)}
    return found | dict(quality(device))


def demo(device: str, quick: bool) -> Shown:
    import plotly.graph_objects as go

    length = 1024 if quick else 2048
    densities, x = (1.0, 0.5, 0.25, 0.125), torch.randn(1, length, 64, device=device)
    modules = {density: SparseAttention(64, 1, density, "local").to(device) for density in densities}
    counted = [flops(module, length) / 1e6 for module in modules.values()]
    q, k, v = (one.detach() for one in modules[1.0].heads(x))
    calls = {f"{d:g}": lambda m=m: m.attend(q, k, v, m.chosen(q, k)[0])[..., :0] for d, m in modules.items()}
    with torch.no_grad():
        raced = race(calls, device, rounds=2)
    _, failure = check(SparseAttention, device)
    said = ", ".join(f"{d:g}: {one:,.0f}" for d, one in zip(densities, counted, strict=True))
    figure = go.Figure(go.Bar(x=[f"{d:g}" for d in densities], y=counted))
    figure.update_layout(xaxis={"title": "density", "type": "category"}, yaxis={"title": "million FLOPs"})
    return Shown(
        f"attention over {length:,} positions that reads all, a half, a quarter and an eighth of the blocks of keys",
        failure or "outputs and gradients equal dense attention under the chosen blocks, in four ways to choose",
        f"million FLOPs by density {said}; an eighth is {raced.ratio('1', '0.125').median:.1f} times as fast as all",
        Picture(figure, f"Millions of FLOPs by density: {said}."),
    )


SYSTEM = System(
    name="sparse_attention",
    summary="attention whose queries read a few blocks of keys: by their means, at random, nearby, or by a learned gate",
    modules=("kernels.masks.sparse",),
    make=SparseAttention,
    proof="dense attention under the chosen blocks in float64, outputs and gradients; FLOPs counted as they run",
    check=check,
    wrong={
        "all scores are computed, then masked": DenseThenMasked,
        "causal by blocks alone": CausalByBlocks,
        "a softmax for each block": SeparateSoftmax,
        "the worst blocks are read": WorstBlocks,
        "keys choose their queries": KeysChoose,
        "the gate gets no gradient": DeadGate,
    },
    demo=demo,
    from_torch=("gather, matrix products, softmax", "flex_attention, in the claim’s experiment on a GPU"),
    claims=(
        Claim(
            name="sparse-10x",
            text="10× at 90 % sparsity with < 1 % loss",
            source="optimization framework, sparse attention",
            conditions="a tenth of the blocks is computed",
            verdict="not yet measured",
            reason="FLOPs fall as claimed; whether time does, a GPU must say, and loss depends on how blocks are chosen",
            experiment=experiment,
        ),
    ),
)
