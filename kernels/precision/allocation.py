"""Bits for each linear layer, so many on average over all weights, and the weights rounded to them.

Bits are given one at a time to the layer where one more takes the most from a cost, per weight: Shoham and Gersho, "Efficient
Bit Allocation for an Arbitrary Set of Quantizers" (1988). Ways to allocate differ in the cost alone.
"""

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import nn

from kernels.precision.evenly import WIDTHS, evenly

WAYS = ("uniform", "entropy", "error", "fisher")

BINS, DRAWS = 256, 8
"""Of the histogram whose entropy is taken, and how often labels are drawn for the Fisher information."""


def allocate_bits(model: nn.Module, batch: torch.Tensor, bits: float = 4, by: str = "fisher") -> dict[str, int]:
    """Give every nn.Linear a number of bits, and round its weights to as many; the model is changed in place.

    Weights become evenly spaced values (`kernels.precision.evenly`) and keep their dtype: this finds what precision costs, and
    packs nothing.

    Args:
        batch: what the model is called with, in the mode that it is in. Its output, (…, C), is taken as logits of C classes.
        bits: 2 to 8, the most that weights may have on average; scales are not counted.
        by: the sum over all layers that is made small.
            "uniform": the error of weights that are alike everywhere.
            "entropy": the error of weights that are as hard to code as the entropy of their histogram says.
            "error": the squared error of the weights.
            "fisher": the same, each weight's times its Fisher information: to second order, what predictions lose, if errors
                were independent.

    Returns:
        the bits of each layer by its name; where layers share a weight, of the first.

    Raises:
        ValueError: another `by`; bits out of range; no nn.Linear; weights that are not finite.
    """
    if by not in WAYS:
        raise ValueError(f"by: got {by!r}, expected one of {', '.join(WAYS)}")
    if not WIDTHS[0] <= bits <= WIDTHS[-1]:
        raise ValueError(f"bits: got {bits}, expected {WIDTHS[0]} to {WIDTHS[-1]}")
    weights = linear_weights(model)
    if by in ("uniform", "entropy"):  # a source of h bits has in b bits an error in proportion to 4^(h - b)
        needs = {name: entropy(weight) if by == "entropy" else 0.0 for name, weight in weights.items()}
        costs = {name: [w.numel() * 4.0 ** (needs[name] - width) for width in WIDTHS] for name, w in weights.items()}
    else:
        matters = fisher(model, batch) if by == "fisher" else dict.fromkeys(weights, torch.ones(()))
        costs = {name: [_error(w, width, matters[name]) for width in WIDTHS] for name, w in weights.items()}
    given = cheapest(costs, {name: weight.numel() for name, weight in weights.items()}, bits)
    for name, weight in weights.items():
        weight.copy_(evenly(weight, given[name]))
    return given


def linear_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """The weights of every nn.Linear by the layer's name, each once, outside autograd. ValueError: none, or not finite."""
    found: dict[str, torch.Tensor] = {}
    for name, weight in model.named_parameters():  # which has a weight once that several layers share
        layer = name.rpartition(".")[0]
        if name.endswith("weight") and type(model.get_submodule(layer)) is nn.Linear:
            if not weight.isfinite().all():
                raise ValueError(f"{name}: got infinities or NaN, expected finite values")
            found[layer] = weight.detach()
    if not found:
        raise ValueError(f"model: got {type(model).__name__} without an nn.Linear, expected one at least")
    return found


def entropy(weight: torch.Tensor) -> float:
    """Of the histogram of BINS equal bins between the least and the largest weight, in bits."""
    counts = torch.histc(weight.float(), BINS)
    share = counts[counts > 0] / weight.numel()
    return -float((share * share.log2()).sum())


def fisher(model: nn.Module, batch: torch.Tensor) -> dict[str, torch.Tensor]:
    """An estimate of the Fisher information's diagonal: for each layer's weights, (N, K), the squared gradient of the
    log-likelihood of labels that the model itself draws, summed over its predictions.

    Labels are drawn for all predictions at once: their gradients are independent with a mean of 0, so that the squared gradient
    of their sum is on average the sum of their squares. Martens, "New Insights and Perspectives on the Natural Gradient
    Method" (2020), section 5.
    """
    weights = {name: weight.clone().requires_grad_() for name, weight in linear_weights(model).items()}
    named = {f"{name}.weight".removeprefix("."): weight for name, weight in weights.items()}
    found = {name: torch.zeros_like(weight, dtype=torch.float32) for name, weight in weights.items()}
    with torch.enable_grad():
        logits = torch.func.functional_call(model, named, (batch,)).float().flatten(0, -2)
        random = torch.Generator(logits.device).manual_seed(0)
        labels = torch.multinomial(logits.detach().softmax(-1), DRAWS, replacement=True, generator=random)
        for drawn in labels.unbind(1):
            loss = F.cross_entropy(logits, drawn, reduction="sum")
            gradients = torch.autograd.grad(loss, [*weights.values()], retain_graph=True, materialize_grads=True)
            for total, gradient in zip(found.values(), gradients, strict=True):
                total += gradient.float().square() / DRAWS
    return found


def _error(weight: torch.Tensor, bits: int, matters: torch.Tensor) -> float:
    return float(((evenly(weight, bits) - weight).float().square() * matters.to(weight.device)).sum())


def cheapest(costs: Mapping[str, Sequence[float]], sizes: Mapping[str, int], bits: float) -> dict[str, int]:
    """The bits of each layer. costs: by layer, for each of WIDTHS; sizes: weights of a layer; bits: the most on average."""
    given, left = dict.fromkeys(sizes, WIDTHS[0]), (bits - WIDTHS[0]) * sum(sizes.values())

    def gain(name: str) -> float:
        at = given[name] - WIDTHS[0]
        return (costs[name][at] - costs[name][at + 1]) / sizes[name]

    while fitting := [name for name, size in sizes.items() if size <= left and given[name] < WIDTHS[-1]]:
        best = max(fitting, key=gain)
        given[best] += 1
        left -= sizes[best]
    return given
