"""Block-sparse attention: proved against dense attention under the chosen blocks, its work counted, its loss measured."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from kernels.claims import Claim, Number
from kernels.figures import Picture
from kernels.lens.pytorch.operators import operators
from kernels.masks import SparseAttention
from kernels.masks.dense import dense, wrong_choice
from kernels.masks.recall import Recall, accuracy, trained
from kernels.masks.sparse import CHOICES
from kernels.measure import race
from kernels.measure.patterns import chosen_blocks
from kernels.system import Shown, System
from kernels.systems.sparse_attention import wrong
from kernels.tolerance import compare

DIM, HEADS, BLOCK, LENGTH = 24, 3, 4, 32


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
            quarter = make(DIM, HEADS, 0.25, choose, BLOCK, causal).to(device)
            counted, expected = work(quarter, length), quarter.cost(1, length)
            if counted != expected or counted[0] != HEADS * length * length * (DIM // HEADS):
                return math.inf, f"{choose}: FLOPs and bytes {counted} at length {length}, and a quarter is {expected}"
    for density, kept in ((0.35, 3), (0.1, 1), (1.0, 8)):  # of eight blocks
        if (got := make(DIM, HEADS, density, "topk", BLOCK).kept(8 * BLOCK)) != kept:
            return math.inf, f"a density of {density} keeps {got} of eight blocks, expected {kept}"
    q = k = torch.ones(1, HEADS, 4 * BLOCK, DIM // HEADS, device=device)
    nearest = make(DIM, HEADS, 0.5, "local", BLOCK).to(device).chosen(q, k)[0].sort().values
    if nearest[0, 0].tolist() != [[0, 1], [0, 1], [1, 2], [2, 3]]:
        return (
            math.inf,
            f"the two nearest of four blocks are {nearest[0, 0].tolist()}; of equals the earlier is to be read",
        )
    return worst, None


def work(module: SparseAttention, length: int) -> tuple[int, int]:
    """Of a sequence's attention as it runs: FLOPs of its products, and bytes of the keys and values that are gathered."""
    q, k, v = module.heads(torch.zeros(1, length, module.dim, device=module.out.weight.device))
    chosen, gate = module.chosen(q, k)
    with FlopCounterMode(display=False) as counter:
        module.attend(q, k, v, chosen, gate)
    asked = operators(module.attend, q, k, v, chosen, gate).calls
    return counter.get_total_flops(), sum(one.written for one in asked if one.name == "index")


def loss(device: str) -> Mapping[str, Number]:
    """What is recalled with a tenth of the blocks, each way trained as it is used; and by the dense model's own weights."""
    steps = 400
    models = {"all blocks": trained(1.0, "topk", device, steps)}
    models |= {choose: trained(0.1, choose, device, steps) for choose in CHOICES}
    models["topk, put in after training"] = late = Recall(0.1, "topk").to(device)
    late.load_state_dict(models["all blocks"].state_dict())
    found = {}
    for name, model in models.items():
        found[f"recalled, {name}"] = Number.of(accuracy(model, device), "%")
    return found


def saved(device: str) -> Mapping[str, Number]:
    """How many times fewer FLOPs and gathered bytes a tenth of the blocks takes, counted."""
    every, tenth = (work(SparseAttention(64, 1, density, "local"), 5_120) for density in (1.0, 0.1))
    found = {}
    for what, one, two in zip(("FLOPs", "bytes gathered"), every, tenth, strict=True):
        found[what] = Number.exact(one / two, "×")
    return found


def speed(device: str) -> Mapping[str, Number]:
    return chosen_blocks(0.1, (8_192, 16_384, 32_768))


def attended(module: SparseAttention, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """None of its elements: each density gives others, and a race compares them."""
    return module.attend(q, k, v, module.chosen(q, k)[0])[..., :0]


def demo(device: str, quick: bool) -> Shown:
    import plotly.graph_objects as go

    length = 512 if quick else 1024
    densities, x = (1.0, 0.5, 0.25, 0.125), torch.randn(1, length, 64, device=device)
    modules = {density: SparseAttention(64, 1, density, "local").to(device) for density in densities}
    counted = [work(module, length)[0] / 1e6 for module in modules.values()]
    q, k, v = (one.detach() for one in modules[1.0].heads(x))
    calls: dict[str, Callable[[], torch.Tensor]] = {f"{d:g}": partial(attended, m, q, k, v) for d, m in modules.items()}
    with torch.no_grad():
        raced = race(calls, device, rounds=2)
    said = ", ".join(f"{d:g}: {one:,.0f}" for d, one in zip(densities, counted, strict=True))
    figure = go.Figure(go.Bar(x=[f"{d:g}" for d in densities], y=counted))
    figure.update_layout(xaxis={"title": "density", "type": "category"}, yaxis={"title": "million FLOPs"})
    return Shown(
        f"attention over {length:,} positions that reads all, a half, a quarter and an eighth of the blocks of keys",
        "outputs and gradients equal dense attention under the chosen blocks, in four ways to choose",
        f"million FLOPs by density {said}; an eighth is {raced.ratio('1', '0.125').median:.1f} times as fast as all",
        Picture(figure, f"Millions of FLOPs by density: {said}."),
    )


def _claim(name: str, conditions: str, verdict: str, reason: str, experiment: Any, **others: Any) -> Claim:
    text, source = "10× at 90 % sparsity with < 1 % loss", "optimization framework, sparse attention"
    return Claim(name, text, source, conditions, verdict, reason, experiment=experiment, **others)


SYSTEM = System(
    name="sparse_attention",
    summary="attention whose queries read a few blocks of keys: by their means, at random, nearby, or by a learned gate",
    modules=("kernels.masks.sparse",),
    make=SparseAttention,
    proof="dense attention under the chosen blocks in float64, outputs and gradients; FLOPs counted as they run",
    check=check,
    wrong={
        "fewer blocks than the density says": wrong.RoundsDown,
        "the later of two equally near blocks": wrong.LaterOfEquals,
        "all scores are computed, then masked": wrong.DenseThenMasked,
        "causal by blocks alone": wrong.CausalByBlocks,
        "a softmax for each block": wrong.SeparateSoftmax,
        "the worst blocks are read": wrong.WorstBlocks,
        "keys choose their queries": wrong.KeysChoose,
        "all heads read what the first chose": wrong.OneHeadChooses,
        "the gate gets no gradient": wrong.DeadGate,
    },
    demo=demo,
    from_torch=("gather, matrix products, softmax", "flex_attention, in the claim’s experiment on a GPU"),
    claims=(
        _claim(
            "sparse-10x",
            "a tenth of the blocks, forward",
            "refuted",
            "the work falls by as much, the time by far less, against dense attention of torch",
            speed,
            evidence="measured",
            devices=("cuda",),
        ),
        _claim(
            "sparse-10x-work",
            "a tenth of the blocks, the work counted",
            "partly",
            "its FLOPs and the bytes of keys and values that are gathered fall by as much; that is neither time nor loss",
            saved,
            evidence="exact on a CPU",
        ),
        _claim(
            "sparse-10x-loss",
            "a tenth of the blocks, values recalled by their keys, one training each",
            "partly",
            "where the means of blocks tell what they hold, as in this task, choosing by means comes near all blocks; choosing "
            "by place or at random loses nearly everything, and so does a gate after as many steps of training",
            loss,
            evidence="measured",
            devices=("cpu",),
        ),
    ),
)
