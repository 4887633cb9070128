"""How long the steps of an offloaded optimizer take on this machine: the rates that predict it, and the steps themselves."""

import time
from collections.abc import Mapping
from functools import partial
from statistics import median, quantiles

import torch
from torch import nn

from kernels.claims import Number
from kernels.memory.interleaving import Rates, best_share, predicted
from kernels.memory.link import Link
from kernels.memory.optimizer_states import offload_optimizer


def measured(device: str, numbers: int = 1 << 24, repeat: int = 5) -> Rates:
    """The rates here, for AdamW with `fused=True` in float32: medians; beside a GPU, with all of the CPU's threads.

    Args:
        device: "cuda", or "cpu", whose copies are within its memory.
        numbers: parameters that are updated and copied.
    """
    link, on_device = Link(torch.device(device)), torch.zeros(numbers, device=device)
    parameter = link.on_host(on_device).zero_()
    parameter.grad = torch.ones_like(parameter)
    optimizer = torch.optim.AdamW([parameter], fused=True)
    ways = (
        lambda: optimizer.step(),
        lambda: link.down(parameter, on_device).synchronize(),
        lambda: link.up(on_device, parameter).synchronize(),
    )
    taken: list[list[float]] = [[], [], []]
    threads = torch.get_num_threads()
    try:
        if device == "cpu":
            torch.set_num_threads(1)  # several wait for each other whenever another program takes a core
        for _ in range(repeat + 1):
            for times, way in zip(taken, ways, strict=True):
                begin = time.perf_counter()
                way()
                times.append(1e9 * (time.perf_counter() - begin))
    finally:
        torch.set_num_threads(threads)
    update, down, up = (median(times[1:]) / numbers for times in taken)  # the first ones make memory
    return Rates(update, down / parameter.itemsize, up / parameter.itemsize)


def raced(parameters: int, groups: int, rounds: int = 8) -> Mapping[str, Number]:
    """Steps of AdamW on a GPU, fused, in float32: its states resident, all of it updated on the CPU, and interleaved by the
    share that is predicted to be the best from the rates measured just before.

    Args:
        parameters: how many, in four tensors for each subgroup.
        groups: subgroups.
        rounds: in which all take a step, in turns, until the GPU has done it.
    """
    rates = measured("cuda", min(parameters, 1 << 26))
    share = best_share(rates, groups, mirror=True)
    gradients = [torch.ones(parameters // (4 * groups), device="cuda") for _ in range(4 * groups)]

    def adamw() -> torch.optim.Optimizer:
        pieces = [nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients]
        for piece, gradient in zip(pieces, gradients, strict=True):
            piece.grad = gradient
        return torch.optim.AdamW(pieces, fused=True)

    offloaded = partial(offload_optimizer, groups=groups, mirror=True)
    ways = {
        "resident": adamw(),
        "static": offloaded(adamw(), interleave=False),
        "interleaved": offloaded(adamw(), interleave=share),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    extra: dict[str, float] = {}
    for _ in range(rounds + 2):
        for name, optimizer in ways.items():
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            begin, before = time.perf_counter(), torch.cuda.memory_allocated()
            optimizer.step()
            torch.cuda.synchronize()
            taken[name].append(time.perf_counter() - begin)
            extra[name] = (torch.cuda.max_memory_allocated() - before) / 2**20

    def ratio(slow: str, fast: str) -> Number:
        pairs = list(zip(taken[slow], taken[fast], strict=True))[2:]  # the first ones make memory
        low, middle, high = quantiles(a / b for a, b in pairs)
        return Number(middle, low, high, "×")

    single = {
        "predicted, static over interleaved": (predicted(0, rates, True) / predicted(share, rates, True), "×"),
        "share on the GPU": (100 * share, "%"),
        "update on the CPU": (rates.update, "ns a parameter"),
        "link, to the host": (1 / rates.down, "GB/s"),
        "link, to the GPU": (1 / rates.up, "GB/s"),
        "states on the GPU, resident": (8 * parameters / 2**20, "MiB"),
        "states on the GPU, interleaved, at the peak": (extra["interleaved"], "MiB"),
    }
    return {
        "static over interleaved": ratio("static", "interleaved"),
        "static over resident": ratio("static", "resident"),
        "interleaved over resident": ratio("interleaved", "resident"),
    } | {name: Number.exact(value, unit) for name, (value, unit) in single.items()}
