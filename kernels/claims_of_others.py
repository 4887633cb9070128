"""Claims that no system of the course answers: of levels as such, and of attention in one call."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from kernels.claims import Claim, Number
from kernels.measure import Race, race
from kernels.memory import track
from kernels.ops.layer_norm import layer_norm
from kernels.ops.softmax import softmax

PROJECT, FUSION = "five-level project", "direct CUDA fusion collection"


def _raced(functions: Mapping[str, Callable[..., Any]], *args: torch.Tensor) -> Race:
    calls: dict[str, Callable[[], torch.Tensor]] = {
        name: torch.no_grad()(lambda fn=fn: fn(*args)) for name, fn in functions.items()
    }
    return race(calls, args[0].device.type)


def norm_and_gelu(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """An operator for each step."""
    centred = x - x.mean(-1, keepdim=True)
    y = centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * weight + bias
    return 0.5 * y * (1 + torch.erf(y * 0.7071067811865476))


def own_operators(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.gelu(F.layer_norm(x, weight.shape, weight, bias))


def compilers(device: str) -> Mapping[str, Number]:
    """Layer norm and GELU: an operator a step, PyTorch's own two operators, and both compilers, at two sizes."""
    found = {}
    scripted, compiled = torch.jit.script(norm_and_gelu), torch.compile(norm_and_gelu)
    for rows, dim in ((512, 512), (32_768, 4_096)) if device == "cuda" else ((512, 512),):
        args = torch.randn(rows, dim, device=device), torch.randn(dim, device=device), torch.randn(dim, device=device)
        functions: dict[str, Callable[..., Any]] = {
            "steps": norm_and_gelu,
            "own": own_operators,
            "TorchScript": scripted,
            "torch.compile": compiled,
        }
        run = _raced(functions, *args)
        for fast in ("TorchScript", "torch.compile"):
            for slow, said in (("steps", "an operator a step"), ("own", "PyTorch's own operators")):
                found[f"{fast} over {said}, {rows} × {dim}"] = run.ratio(slow, fast)
    return found


def torchscript(device: str) -> Mapping[str, Number]:
    return {name: number for name, number in compilers(device).items() if name.startswith("TorchScript")}


def compile(device: str) -> Mapping[str, Number]:
    return {name: number for name, number in compilers(device).items() if name.startswith("torch.compile")}


def triton_and_cuda(device: str) -> Mapping[str, Number]:
    """Softmax and layer norm at the levels' default rungs."""
    found, levels = {}, ("triton", "cuda")
    for dim in (1_024, 4_096, 32_768):
        x = torch.randn(8_192, dim, device=device, dtype=torch.bfloat16)
        weight, bias = torch.ones_like(x[0]), torch.zeros_like(x[0])
        softmaxes = {level: partial(softmax, level=level) for level in levels}
        norms = {level: partial(layer_norm, weight=weight, bias=bias, level=level) for level in levels}
        found[f"softmax, CUDA C over Triton, ×{dim}"] = _raced(softmaxes, x).ratio("cuda", "triton")
        found[f"layer norm, CUDA C over Triton, ×{dim}"] = _raced(norms, x).ratio("cuda", "triton")
    return found


def attention_memory(device: str) -> Mapping[str, Number]:
    """The exponent of the length in the peak of a forward and backward: bytes on a GPU, counted ones on a CPU."""

    def written_out(q: torch.Tensor) -> torch.Tensor:
        return (q @ q.mT * q.shape[-1] ** -0.5).softmax(-1) @ q

    def one_call(q: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, q, q)

    found = {}
    for name, fn in (("scores written out", written_out), ("one call", one_call)):
        peaks = [_peak(fn, length, device) for length in (4_096, 8_192)]
        power = math.log2(peaks[1] / peaks[0])
        found[name] = Number.exact(power, "of the length, as a power")
    return found


def _peak(fn: Callable[[torch.Tensor], torch.Tensor], length: int, device: str) -> int:
    if device == "cuda":
        q = torch.randn(1, 4, length, 64, device=device, dtype=torch.bfloat16, requires_grad=True)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        fn(q).sum().backward()
        return torch.cuda.max_memory_allocated() - before

    class Module(torch.nn.Module):
        def forward(self, q: torch.Tensor) -> torch.Tensor:
            return fn(q + self.shift)

        def __init__(self) -> None:
            super().__init__()
            self.shift = torch.nn.Parameter(torch.zeros(64))

    return track(Module(), torch.empty(1, 4, length, 64)).bytes


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "torchscript-over-native",
        "TorchScript over native 1.5–2×",
        PROJECT,
        "none given",
        "partly",
        "its fuser is faster than an operator a step, by more than that, and slower than PyTorch’s own operators",
        experiment=torchscript,
        evidence="measured",
        devices=("cuda",),
    ),
    Claim(
        "compile-2-4x",
        "torch.compile 2–4×",
        PROJECT,
        "none given",
        "partly",
        "over an operator a step it gains more than that; over operators that are fused already next to nothing",
        experiment=compile,
        evidence="measured",
        devices=("cuda",),
    ),
    Claim(
        "triton-near-cuda",
        "Triton near CUDA",
        PROJECT,
        "none given",
        "confirmed",
        "of softmax and layer norm, on narrow and wide rows, neither is faster by more than a few percent",
        experiment=triton_and_cuda,
        evidence="measured",
        devices=("cuda",),
    ),
    Claim(
        "flash-linear-memory",
        "flash attention’s memory is linear in the length",
        FUSION,
        "forward and backward",
        "confirmed",
        "the peak grows with the length in one call, and with its square when scores are written out",
        "exact on a CPU",
        attention_memory,
    ),
)
