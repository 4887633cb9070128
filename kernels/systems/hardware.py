"""What is here, and a model made ready for it: proved on machines that are played to PyTorch."""

import contextlib
import copy
import math
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from kernels.claims import Claim, Number
from kernels.cuda.kernel import watched
from kernels.hardware import TARGETS, Device, devices
from kernels.lens.cuda.resources import compiled
from kernels.machine import planning
from kernels.modules.prepare import prepare
from kernels.operation import operation
from kernels.system import Shown, System

# (AMD's, GPUs, Intel's, Apple's, a TPU) → the kinds that are there
PLAYED = (
    ((False, 0, 0, False, False), ["cpu"]),
    ((False, 2, 0, False, False), ["cuda", "cuda", "cpu"]),
    ((True, 1, 0, False, False), ["rocm", "cpu"]),
    ((False, 0, 1, False, True), ["xpu", "tpu", "cpu"]),
    ((False, 0, 0, True, False), ["mps", "cpu"]),
)


@contextlib.contextmanager
def played(amd: bool, gpus: int, intel: int, apple: bool, tpu: bool) -> Iterator[None]:
    """PyTorch says that it has these devices."""
    facts = SimpleNamespace(name="a played device", total_memory=1 << 30)
    answers = {
        "torch.cuda.is_available": gpus > 0,
        "torch.cuda.device_count": gpus,
        "torch.cuda.get_device_properties": facts,
        "torch.xpu.is_available": intel > 0,
        "torch.xpu.device_count": intel,
        "torch.xpu.get_device_properties": facts,
        "torch.backends.mps.is_available": apple,
        "importlib.util.find_spec": facts if tpu else None,
    }
    with contextlib.ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(patch(name, return_value=answer))
        stack.enter_context(patch("torch.version.hip", "6.4" if amd else None))
        yield


def check(make: Callable[[], list[Device]], device: str) -> tuple[float, str | None]:
    """The kinds of five played machines, their numbers; then a model here, prepared, against itself."""
    for machine, kinds in PLAYED:
        with played(*machine):
            found = make()
        if [one.kind for one in found] != kinds:
            return math.inf, f"{', '.join(one.kind for one in found)} were found where there are {', '.join(kinds)}"
        for one in found:
            wanted = ("a played device", 1 << 30) if one.kind in ("cuda", "rocm", "xpu") else (one.name, None)
            if (one.name, one.bytes) != wanted or not one.name:
                return math.inf, f"{one.kind}: {one.name!r} of {one.bytes} bytes was found, expected {wanted}"
        names = [one.torch for one in found if one.torch]
        if len(set(names)) != len(names):
            return math.inf, f"two devices have the same name: {', '.join(names)}"
    here = next(one for one in make() if one.torch.split(":")[0] == device)
    kept = model()
    x = torch.randn(4, 12, generator=torch.Generator().manual_seed(0)).to(device)
    expected = copy.deepcopy(kept).to(device)(x)
    ready = prepare(kept, here)
    if not torch.allclose(ready.model(x), expected, atol=1e-5):
        return math.inf, "the prepared model computes something else"
    if not any("replaced" in reason for reason in ready.reasons) or not any("12 × 20" in r for r in ready.reasons):
        return math.inf, "the reasons name neither what was replaced nor a width that matrix units do not take"
    return 0.0, None


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 20), nn.LayerNorm(20), nn.GELU(), nn.Linear(20, 8))


def all_from_nvidia() -> list[Device]:
    return [Device("cuda", one.name, one.torch, one.bytes) if one.kind == "rocm" else one for one in devices()]


def the_first_alone() -> list[Device]:
    found = devices()
    return [one for number, one in enumerate(found) if not one.torch.endswith(("1", "2")) or number == 0]


def without_memory() -> list[Device]:
    return [Device(one.kind, one.name, one.torch) for one in devices()]


def by_kind() -> list[Device]:
    """Names a device by its kind."""
    return [Device(one.kind, one.kind, one.torch, one.bytes) for one in devices()]


def registers(device: str) -> Mapping[str, Number]:
    """Registers of a thread and bytes that spill, at most, of layer norm's kernels in CUDA C, forward and backward, as
    compiled for GPUs that are not here."""
    op, found = operation("layer_norm"), {}
    case = op.few(op.cases["model"][0], 2)
    inputs = op.inputs(case, "cpu")
    coming = op.incoming(case, op.results(op.baseline, inputs))
    for name, target in (("A100", "sm_80"), ("A10G", "sm_86"), ("L4", "sm_89")):
        launched: list[Any] = []
        with planning(TARGETS[target]), watched(lambda kernel, *launch, to=launched: to.append(kernel)):
            op.results(op["cuda"].fn, inputs, op.differentiable(inputs), coming)
        said = [compiled(kernel, TARGETS[target]) for kernel in launched]
        found[f"registers, {name}"] = Number.exact(max(one["registers"] for one in said), "registers of a thread")
        found[f"spilled, {name}"] = Number.exact(max(one["spilled_bytes"] for one in said), "bytes")
    return found


def demo(device: str, quick: bool) -> Shown:
    ready = prepare(model(), next(one for one in devices() if one.torch.split(":")[0] == device))
    found = ", ".join(f"{one.kind} ({one.name}; {one.evidence})" for one in devices())
    return Shown(
        f"devices here: {found}; a model prepared for {ready.device.torch}",
        "five played machines are told apart, and a prepared model computes what it did before",
        f"{len(ready.reasons)} reasons: {'; '.join(ready.reasons)}",
    )


SYSTEM = System(
    name="hardware",
    summary="the devices that are here, and a model made ready for one, with the reasons",
    modules=("kernels.hardware.devices", "kernels.modules.prepare"),
    make=devices,
    proof="machines of four makers, played to PyTorch; and the model as it was",
    check=check,
    wrong={
        "AMD’s GPUs are taken for NVIDIA’s": all_from_nvidia,
        "the second GPU is not seen": the_first_alone,
        "its memory is not said": without_memory,
        "its name is not said": by_kind,
    },
    demo=demo,
    from_torch=("finding the devices",),
    claims=(
        Claim(
            name="l4-a10g-a100",
            text="1.3–2.0× by GPU type (L4, A10G, A100)",
            source="optimization framework",
            conditions="none given",
            verdict="not measurable here",
            reason="none of these GPUs is here; the kernels compile for them without spills, and no one has run them there",
            evidence="compiled only",
            experiment=registers,
            devices=("cpu",),
        ),
    ),
)
