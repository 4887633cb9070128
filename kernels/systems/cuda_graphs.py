"""CUDA graphs: a module replayed, against the module called."""

import copy
import math
from collections.abc import Callable, Mapping

import torch
from torch import nn

from kernels.claims import Claim, Number
from kernels.lens.pytorch.operators import operators
from kernels.measure import Race, race
from kernels.modules import TransformerBlock
from kernels.modules.graphed import Graphed
from kernels.system import Shown, System


@torch.no_grad()
def check(make: Callable[[nn.Module], nn.Module], device: str) -> tuple[float, str | None]:
    """Three inputs in turn, all outputs compared at the end; then weights that changed in place; then shapes, and
    gradients, that it must refuse."""
    torch.manual_seed(0)
    module = TransformerBlock(32, 4, level="native").to(device)
    twin, graphed = copy.deepcopy(module), make(module)
    inputs = [torch.randn(2, 8, 32, device=device) for _ in range(3)]
    given = [one.clone() for one in inputs]
    outputs = [graphed(one) for one in inputs]
    for number, (one, output) in enumerate(zip(given, outputs, strict=True)):
        if not torch.allclose(output, twin(one), atol=1e-5):
            return math.inf, f"output {number} of three differs from the module's, once all are there"
        if not torch.equal(one, inputs[number]):
            return math.inf, f"input {number} was overwritten"
    for block in (module, twin):
        block.mlp.up.weight.mul_(2)
    if not torch.allclose(graphed(inputs[0]), twin(inputs[0]), atol=1e-5):
        return math.inf, "weights that changed in place are not seen"
    for wrong in (torch.randn(3, 8, 32, device=device), torch.randn(2, 8, 32, device=device).double()):
        try:
            graphed(wrong)
        except ValueError:
            continue
        return math.inf, f"{tuple(wrong.shape)} {wrong.dtype} is taken, and another was recorded"
    try:
        with torch.enable_grad():
            graphed(inputs[0])
    except RuntimeError:
        return 0.0, None
    return math.inf, "gradients are asked for, and there is an output without any"


class LosesGradients(Graphed):
    """Answers where gradients are asked for, without them."""

    @torch.no_grad()
    def forward(self, *args):
        return super().forward(*args)


class FirstInput(Graphed):
    """Does not copy later inputs to where the graph reads them."""

    def forward(self, *args):
        if self.inputs is None:
            return super().forward(*args)
        for got, expected in zip(args, self.inputs, strict=True):
            if got.shape != expected.shape or got.dtype != expected.dtype:
                raise ValueError
        return super().forward(*(one.clone() for one in self.inputs))


class OneOutput(Graphed):
    """Hands out the memory that the graph writes."""

    def forward(self, *args):
        output = super().forward(*args)
        if self.output is None:
            self.output = output
        return self.output.copy_(output)


class CopiesWeights(Graphed):
    def __init__(self, module):
        super().__init__(copy.deepcopy(module))


class TakesAnyShape(Graphed):
    def forward(self, *args):
        return self.module(*args)


@torch.no_grad()
def raced(device: str, shape: tuple[int, int, int] = (1, 128, 512), depth: int = 1) -> Race:
    blocks = nn.Sequential(*(TransformerBlock(shape[2], 8, level="native") for _ in range(depth)))
    x, module = torch.randn(*shape, device=device), blocks.to(device).eval()
    graphed = Graphed(module)
    calls = {"launch by launch": lambda: module(x), "one graph": lambda: graphed(x)}
    return race({name: torch.no_grad()(call) for name, call in calls.items()}, device)


def waited(device: str, shape: tuple[int, int, int] = (1, 128, 512), depth: int = 1, calls: int = 50) -> Number:
    """How many times as long an answer takes without a graph: wall time from the call to the end of its last kernel."""
    import time

    blocks = nn.Sequential(*(TransformerBlock(shape[2], 8, level="native") for _ in range(depth)))
    x, module = torch.randn(*shape, device=device), blocks.to(device).eval()
    graphed, ratios = Graphed(module), []
    with torch.no_grad():
        for number in range(calls + 5):
            seconds = []
            for call in (module, graphed):
                began = time.perf_counter()
                call(x)
                if device == "cuda":
                    torch.cuda.synchronize()
                seconds.append(time.perf_counter() - began)
            if number >= 5:
                ratios.append(seconds[0] / seconds[1])
    return Number.of(ratios, "×")


def served(device: str) -> Mapping[str, Number]:
    """Twelve blocks that answer one request after the other, with and without a graph."""
    sizes = ((1, 128, 512), (8, 512, 1_024))
    return {f"{' × '.join(map(str, shape))}": waited(device, shape, depth=12) for shape in sizes}


def demo(device: str, quick: bool) -> Shown:
    shape = (1, 32, 64) if quick else (1, 128, 256)
    ratio = waited(device, shape, calls=5 if quick else 20)
    with torch.no_grad():
        block, x = TransformerBlock(64, 8, level="native"), torch.randn(1, 16, 64)
        count = len(operators(lambda: block(x)).calls)
    where = "" if device == "cuda" else "; on a CPU there are no launches to save, and the module itself is called"
    return Shown(
        f"a block of {count} launches, recorded as one graph{where}",
        "outputs equal the module’s, earlier ones stay, changed weights are seen, other shapes are refused",
        f"an answer takes {ratio.median:.2f} times as long without the graph",
    )


SYSTEM = System(
    name="cuda_graphs",
    summary="a module’s launches recorded once and launched together",
    modules=("kernels.modules.graphed",),
    make=Graphed,
    proof="the module itself, over several inputs whose outputs are kept, and after its weights have changed",
    check=check,
    wrong={
        "later inputs are not copied": FirstInput,
        "all calls share one output": OneOutput,
        "weights are those of the recording": CopiesWeights,
        "any shape is taken": TakesAnyShape,
        "gradients are lost without a word": LosesGradients,
    },
    demo=demo,
    from_torch=("torch.cuda.CUDAGraph",),
    claims=(
        Claim(
            name="serving-2x",
            text="model serving 2×",
            source="five-level project",
            conditions="none given",
            verdict="partly",
            reason="a graph takes away launches, which decide for small batches and are nothing beside the work of large ones",
            evidence="measured",
            experiment=served,
            devices=("cuda",),
        ),
    ),
)
