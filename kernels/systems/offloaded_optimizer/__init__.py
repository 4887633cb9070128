"""Optimizer states in the host's memory: the same steps as with resident states, by whatever share visits the GPU."""

import math
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import nn

from kernels.claims import Claim, Number
from kernels.figures import Picture
from kernels.memory.interleaving import best_share, predicted
from kernels.memory.offload_times import measured, raced
from kernels.memory.optimizer_states import OffloadedOptimizer, offload_optimizer
from kernels.system import Shown, System
from kernels.systems.offloaded_optimizer import wrong

SHAPES = ((40, 16), (16,), (33,), (8, 8, 3), (5, 7), (64,), (20, 10), (3,))
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "AdamW": torch.optim.AdamW,
    "AdamW, fused": partial(torch.optim.AdamW, fused=True),
    "SGD": partial(torch.optim.SGD, momentum=0.9),
}
LR = 0.01
GROUPS, FILLED = 5, 4  # one parameter has more than a fifth of all bytes, so that one subgroup is empty


def example(device: str) -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(shape).to(device)) for shape in SHAPES]


def of(make: Callable[..., torch.optim.Optimizer], parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """With two groups of parameters, and options of their own."""
    groups = [{"params": parameters[:3]}, {"params": parameters[3:], "lr": LR / 2, "weight_decay": 0.1}]
    return make(groups, lr=LR)


def gradients(parameters: list[nn.Parameter], number: int) -> None:
    """Those of a step; one parameter in five has none."""
    torch.manual_seed(number)
    for index, parameter in enumerate(parameters):
        gradient = torch.randn(parameter.shape).to(parameter.device)
        parameter.grad = None if (index + number) % 5 == 0 else gradient


def train(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter], steps: range) -> None:
    """Steps with a learning rate that falls, between which someone changes a parameter."""
    for number in steps:
        gradients(parameters, number)
        optimizer.step()
        with torch.no_grad():
            parameters[number % len(parameters)].mul_(0.99)
        for group in optimizer.param_groups:
            group["lr"] *= 0.97


def check(make: Callable[..., OffloadedOptimizer], device: str) -> tuple[float, str | None]:
    """Parameters and states after a hundred steps, on one device to the bit; bytes moved; the other's states loaded by each."""
    worst = 0.0
    for name, optimizer in OPTIMIZERS.items():
        for share, mirror, steps in ((0.0, False, 4), (0.5, True, 100 if name == "AdamW" else 4), (1.0, False, 4)):
            resident, moved = example(device), example(device)
            one, other = (
                of(optimizer, resident),
                make(of(optimizer, moved), groups=GROUPS, interleave=share, mirror=mirror),
            )
            which = f"{name}, a share of {share} on the GPU"
            train(one, resident, range(steps))
            train(other, moved, range(steps))
            exact = device == "cpu" or share == 1
            for _ in range(2):
                ratio = max(map(partial(apart, exact=exact, steps=steps), resident, moved))
                ratio = max(ratio, *map(partial(apart, exact=exact, steps=steps), numbers(one), numbers(other)))
                if ratio > 1:
                    return ratio, f"{which}: parameters or states differ from those of the resident optimizer"
                worst = max(worst, ratio)
                saved = one.state_dict(), other.state_dict()
                if saved[0]["param_groups"] != saved[1]["param_groups"]:
                    return math.inf, f"{which}: other options than the resident optimizer's"
                one, other = (
                    of(optimizer, resident),
                    make(of(optimizer, moved), groups=GROUPS, interleave=share, mirror=mirror),
                )
                one.load_state_dict(saved[1])
                other.load_state_dict(saved[0])
                if failure := strays(other, moved, share, mirror):
                    return math.inf, f"{which}: {failure}"
                for _ in range(2):
                    gradients(resident, 3)
                    one.step()
    return worst, None


def apart(expected: torch.Tensor, got: torch.Tensor, exact: bool, steps: int) -> float:
    """How far two are apart, as a ratio of what is allowed: nothing, or the rounding of another device."""
    if exact or expected.shape != got.shape:
        return 0.0 if torch.equal(expected.cpu(), got.cpu()) else math.inf
    expected, got = expected.detach().cpu(), got.detach().cpu()
    return float(((expected - got).abs() / (3e-6 * expected.abs() + 1e-4 * LR * steps)).max())


def numbers(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    states = optimizer.state_dict()["state"]
    return [torch.as_tensor(states[key][name]) for key in sorted(states) for name in sorted(states[key])]


def strays(optimizer: OffloadedOptimizer, parameters: list[nn.Parameter], share: float, mirror: bool) -> str | None:
    """After one more step: whether states are elsewhere than in the host's memory, subgroups in another place than the share
    says, or other bytes moved than must be."""
    parts = optimizer.subgroups()
    if [one for part, _ in parts for one in part] != parameters or sum(up for _, up in parts) != round(
        len(parts) * share
    ):
        return "other subgroups than the share says"
    if len(parts) != FILLED:
        return f"{len(parts)} subgroups with parameters, expected {FILLED}"
    for again in (False, True):
        gradients(parameters, 3)
        down = up = 0
        for parameter, visits in ((one, visits) for part, visits in parts for one in part if one.grad is not None):
            fused = any(group.get("fused") for group in optimizer.param_groups)
            state = {k: v for k, v in optimizer.state[parameter].items() if k != "step" or fused}
            known = mirror and again  # then its gradient alone goes to the host
            down += sum(one.nbytes for one in state.values()) if visits else (2 - known) * parameter.nbytes
            up += sum(one.nbytes for one in state.values()) if visits else parameter.nbytes
        before = optimizer.link.to_host, optimizer.link.to_device
        optimizer.step()
        ways = optimizer.link.to_host - before[0], optimizer.link.to_device - before[1]
        if ways != (down, up):
            return f"{ways} bytes to the host and back, expected {(down, up)}"
    if any(value.device.type != "cpu" for state in optimizer.state.values() for value in state.values()):
        return "states outside the host's memory"
    return None


def experiment(device: str) -> Mapping[str, Number]:
    """Steps of 268 million parameters, in 16 subgroups."""
    return raced(1 << 28, 16)


def demo(device: str, quick: bool) -> Shown:
    import plotly.graph_objects as go

    rates = measured(device, 1 << 20 if quick or device == "cpu" else 1 << 24)
    shares = [number / 16 for number in range(17)]
    times = [predicted(share, rates, mirror=True) for share in shares]
    best = best_share(rates, 16, mirror=True)
    said = f"the CPU updates a parameter in {rates.update:.2f} ns, and the link copies {1 / rates.down:.1f} GB/s"
    said += f"; predicted: a share of {best:.0%} on the GPU makes a step {times[0] / min(times):.2f}× as fast as none"
    if device == "cuda":
        found = raced(1 << (24 if quick else 26), 16, rounds=3)
        said += f"; taken: {found['static over interleaved'].median:.2f}×"
    else:
        said += "; on a CPU nothing overlaps, so that this is no time of a step"
    layout = {"xaxis": {"title": "share on the GPU"}, "yaxis": {"title": "ns a parameter", "rangemode": "tozero"}}
    return Shown(
        "optimizers whose states live in the host’s memory, with none, half and all of the updates on the device",
        "parameters and states after up to a hundred steps equal the resident optimizer’s; bytes are the theory’s",
        said,
        Picture(go.Figure(go.Scatter(x=shares, y=times), layout), f"Predicted time of a step by share: {said}."),
    )


SYSTEM = System(
    name="offloaded_optimizer",
    summary="optimizer states in the host’s memory, updated by the CPU and the GPU at the same time",
    modules=("kernels.memory.optimizer_states", "kernels.memory.interleaving", "kernels.memory.offload_times"),
    make=offload_optimizer,
    proof="the optimizer with resident states: to the bit on one device, else up to rounding; each loads what the other saved",
    check=check,
    wrong={
        "all is one subgroup": wrong.one_subgroup,
        "parameters are copied though the host has them": wrong.no_mirror,
        "states are not brought back": wrong.taught(wrong.LeavesStates),
        "a subgroup is updated twice": wrong.taught(wrong.UpdatesTwice),
        "the gradients of the step before": wrong.taught(wrong.OldGradients),
        "a change of the parameter goes unseen": wrong.taught(wrong.SeesNoChange),
        "nothing visits the GPU": wrong.taught(wrong.NothingVisits),
    },
    demo=demo,
    from_torch=("each optimizer’s own step", "copies, streams and pinned memory"),
    claims=(
        Claim(
            name="optimizer-offloading-2.5x",
            text="2.5× faster",
            source="optimization framework, Deep Optimizer States",
            conditions="none given; the paper, arXiv 2410.21316, says it of iterations, against other ways of offloading",
            verdict="partly",
            reason="a step shared with the GPU is faster than one that the host takes alone, by less than claimed and than the "
            "rates predict; a step with resident states is many times faster than both",
            evidence="measured",
            experiment=experiment,
            devices=("cuda",),
        ),
    ),
)
