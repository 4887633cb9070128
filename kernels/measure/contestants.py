"""Who takes part in a comparison, and what each does there: variants, peers, and a copy of the same number of bytes.

Forward, a contestant is called on the inputs without autograd. Backward, its output is made outside the clock, and what is
timed is `torch.autograd.grad` from that output to the inputs: the kernels, and nothing of the forward.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch._functorch import config as functorch_config

from kernels.layouts import clone_memory
from kernels.machine import Machine
from kernels.measure.timing import host_us
from kernels.operation import Case, Cost, Operation, Variant

DIRECTIONS = ("forward", "backward")
HOST_ROUNDS = 4


@dataclass(frozen=True)
class Contestant:
    """Args: name, kind ("variant", "peer" or "copy") and level as in a Row; fn as a variant's, None for the copy."""

    name: str
    kind: str
    level: int | None
    fn: Callable[..., torch.Tensor] | None


def default_variants(op: Operation, direction: str, device: str) -> tuple[Variant, ...]:
    """All forward rungs, or for each level its backward rungs, else its default, of which the last such rung is a part.

    On a CPU those of levels 1 to 3: the time of Triton's interpreter or of CUDA C on a CPU says nothing about the kernel.
    """
    variants = op.forward
    if direction == "backward":
        levels = dict.fromkeys(variant.level for variant in op.forward)
        rungs = {level: [v for v in op.backward if v.level == level] or [op.default(level)] for level in levels}
        variants = tuple(variant for level in levels for variant in rungs[level])
    return tuple(v for v in variants if device == "cuda" or v.level <= 3)


def contestants(
    op: Operation, case: Case, direction: str, variants: Sequence[Variant], machine: Machine
) -> tuple[list[Contestant], dict[str, str]]:
    """Who takes part, and who cannot and why."""
    found, absent = [], {}
    for variant in variants:
        if reason := variant.unsupported(case, machine):
            absent[variant.key] = reason
        else:
            found.append(Contestant(variant.key, "variant", variant.level, variant.fn))
    for peer in op.peers:
        if reason := peer.unsupported(case, machine) or (direction == "backward" and peer.no_backward):
            absent[peer.name] = reason
            continue
        try:
            found.append(Contestant(peer.name, "peer", None, peer.load()))
        except ImportError as error:
            absent[peer.name] = f"not installed ({error})"
    return [*found, Contestant("copy", "copy", None, None)], absent


def make_data(op: Operation, case: Case, direction: str, cost: Cost, device: str) -> dict:
    """What a round is given: the inputs, gradients of the outputs for the backward, and what the copy copies."""
    data: dict = {"case": case, "inputs": op.inputs(case, device)}
    if direction == "backward":
        with torch.no_grad():
            data["incoming"] = op.incoming(case, op.results(op.baseline, data["inputs"]))
    data["source"] = torch.randint(-128, 128, (cost.bytes // 2,), dtype=torch.int8, device=device)
    data["target"] = torch.empty_like(data["source"])
    return data


def prepared(op: Operation, contestant: Contestant, direction: str, data: dict) -> dict:
    """What the timed call takes: for the backward, the contestant's own outputs and their graph. What is updated in place is
    the contestant's own copy, updated again by each call; and a peer has copies of everything, since Liger writes gradients to
    where its inputs were, or those of its outputs."""
    if contestant.fn is None:
        return data
    if contestant.kind == "peer":
        data = data | {part: _copies(data[part]) for part in ("inputs", "incoming") if part in data}
    inputs = data["inputs"] | {name: clone_memory(data["inputs"][name]) for name in op.updates}
    if direction == "forward":
        return {"inputs": inputs}
    leaves = {name: data["inputs"][name].detach().requires_grad_() for name in op.differentiable(inputs)}
    with torch.enable_grad():
        passed = leaves | {name: leaf.clone() for name, leaf in leaves.items() if name in op.updates}
        outputs = called(op, contestant, inputs | passed)
    through = [name for name in data["incoming"] if outputs[name].requires_grad]
    return {
        "outputs": [outputs[name] for name in through],
        "leaves": list(leaves.values()),
        "incoming": [data["incoming"][name] for name in through],
    }


def _copies(of: dict) -> dict:
    return {name: clone_memory(one) if isinstance(one, torch.Tensor) else one for name, one in of.items()}


def called(op: Operation, contestant: Contestant, inputs: dict) -> dict[str, torch.Tensor]:
    """The contestant's outputs by name. A peer may return its outputs where ours update their inputs."""
    returned = contestant.fn(**inputs)
    new = contestant.kind == "peer" and returned is not None
    return (replace(op, updates=()) if new else op).call(lambda **_: returned, inputs)


def timed_call(contestant: Contestant, direction: str) -> Callable[[dict], object]:
    """The call that is timed: it takes what `prepared` made and returns the outputs, or a gradient for each input."""
    if contestant.fn is None:
        return lambda data: data["target"].copy_(data["source"])
    if direction == "forward":
        return lambda data: contestant.fn(**data["inputs"])
    return lambda data: torch.autograd.grad(
        data["outputs"], data["leaves"], data["incoming"], retain_graph=True, allow_unused=True
    )


def setting(direction: str) -> contextlib.ExitStack:
    """What surrounds the timing: no autograd, and compiled graphs that may be gone through more than once."""
    stack = contextlib.ExitStack()
    stack.enter_context(torch.no_grad())
    if direction == "backward":
        # A compiled backward may overwrite what the forward saved for it, and then refuses retain_graph.
        stack.enter_context(functorch_config.patch(donated_buffer=False))
    return stack


def host_times(op: Operation, case: Case, taking_part: Sequence[Contestant], device: str) -> dict[str, float]:
    """Microseconds of host time of a forward call on no rows at all, by contestant; without peers that refuse that. Of none,
    where the operation itself does, as one that asks for a largest value.

    The contestants take turns, and of its rounds each has the least: what else the computer does only adds to them.
    """
    no_rows = replace(case, shape=(0, *(case.shape[1:] or case.shape)), layout="contiguous", values="realistic")
    data = {"inputs": op.inputs(no_rows, device)}
    found: dict[str, float] = {}
    try:
        op.call(op.baseline, data["inputs"])
    except (IndexError, RuntimeError, ValueError):
        return found
    for contestant in HOST_ROUNDS * [one for one in taking_part if one.fn is not None]:
        call = timed_call(contestant, "forward")
        try:
            with torch.no_grad():
                taken = host_us(lambda call=call: call(data), device)
        except Exception:
            if contestant.kind != "peer":
                raise
        else:
            found[contestant.name] = min(taken, found.get(contestant.name, taken))
    return found
