"""Other makers' GPUs: what Triton's compiler makes of the course's kernels for them. Nothing runs there."""

import math
import re
from collections.abc import Callable, Mapping

from kernels.claims import Claim, Number
from kernels.figures import Picture
from kernels.hardware import WARP
from kernels.operation import Case, Operation, Variant, operation
from kernels.system import Shown, System
from kernels.triton.amd import LANES, AmdCode, amd

Compile = Callable[[Operation, Variant, Case], dict[str, list[AmdCode]]]


def check(make: Compile, device: str) -> tuple[float, str | None]:
    """For each architecture: its own code, as many threads as a launch asks for, and no register beyond those announced."""
    op = operation("softmax")
    found = make(op, op["triton/row"], op.cases["model"][0])
    for architecture, lanes in LANES.items():
        launches = found[architecture]
        if len(launches) != 2:
            return math.inf, f"{architecture}: {len(launches)} launches, and a forward and a backward make two"
        for code in launches:
            where = f"{architecture}, {code.kernel}"
            if f'.amdgcn_target "amdgcn-amd-amdhsa--{architecture}' not in code.assembly:
                return math.inf, f"{where}: the code is for another GPU"
            threads = code.said("max_flat_workgroup_size")
            if code.said("wavefront_size") != lanes or threads != max(WARP * code.warps, lanes):
                return (
                    math.inf,
                    f"{where}: {threads} threads in wavefronts of {lanes}, and {code.warps} warps were asked for",
                )
            used = max(int(number) for number in re.findall(r"\bv\[?(?:\d+:)?(\d+)", code.assembly))
            if not 0 < used < code.vector_registers <= 512:
                return math.inf, f"{where}: v{used} is used, and {code.vector_registers} registers are announced"
            if code.spilled:
                return math.inf, f"{where}: {code.spilled} registers spill"
    return 0.0, None


def one_for_all(op: Operation, variant: Variant, case: Case) -> dict[str, list[AmdCode]]:
    return dict.fromkeys(LANES, amd(op, variant, case)["gfx942"])


def forward_alone(op: Operation, variant: Variant, case: Case) -> dict[str, list[AmdCode]]:
    return {architecture: codes[:1] for architecture, codes in amd(op, variant, case).items()}


def compiled(device: str) -> Mapping[str, Number]:
    """Registers of a lane of each operation's default kernels, forward and backward."""
    found = {}
    for name in ("softmax", "layer_norm"):
        op = operation(name)
        for architecture, codes in amd(op, op["triton/rows"], op.cases["model"][0]).items():
            most = max(code.vector_registers for code in codes)
            found[f"{name}, {architecture}"] = Number.exact(most, "registers")
    return found


def demo(device: str, quick: bool) -> Shown:
    import plotly.graph_objects as go

    op, bars = operation("softmax"), []
    for architecture, codes in amd(op, op["triton/row"], op.cases["model"][0]).items():
        names = [code.kernel for code in codes]
        bars.append(go.Bar(x=names, y=[code.vector_registers for code in codes], name=architecture))
    most = ", ".join(f"{bar.name} {max(bar.y)}" for bar in bars)
    return Shown(
        "softmax's Triton kernels, compiled for an MI300 (wavefronts of 64) and a Radeon RX 7900 (of 32), and not run",
        "the code is for the GPU that was asked for, has the launch's threads, and no register spills",
        f"vector registers of a lane, at most: {most}",
        Picture(go.Figure(bars, {"yaxis": {"title": "vector registers of a lane"}}), f"Vector registers: {most}."),
    )


def _not_here(name: str, text: str, reason: str, evidence: str | None = None) -> Claim:
    return Claim(name, text, "optimization framework, hardware", "none given", "not measurable here", reason, evidence)


SYSTEM = System(
    name="other_machines",
    summary="Triton kernels compiled for AMD’s GPUs, with their registers and spills",
    modules=("kernels.triton.amd",),
    make=amd,
    proof="the code’s own header and text: its architecture, its threads, the registers that it names",
    check=check,
    wrong={"one architecture’s code for all": one_for_all, "the backward is left out": forward_alone},
    demo=demo,
    from_torch=("Triton’s compiler for AMD",),
    claims=(
        Claim(
            name="mi300x",
            text="1.5–1.8× on an MI300X",
            source="optimization framework, hardware",
            conditions="none given",
            verdict="not measurable here",
            reason="there is no such GPU here; the kernels compile for it, and no one has run them",
            evidence="compiled only",
            experiment=compiled,
            devices=("cpu",),
        ),
        _not_here("tpu", "TPU support", "there is no such machine here, and Triton has no compiler for it"),
    ),
)
