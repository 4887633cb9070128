"""Compressed averages with the mistakes that people make with what is left out."""

from typing import Any

import torch
from torch import nn

from kernels.distributed import compress
from kernels.distributed.compression import LowRank, TopK, averaged
from kernels.distributed.messages import place


class Forgets:
    """Begins every step without what the one before left out."""

    def __init__(self, parameters: list[nn.Parameter], **how: Any) -> None:
        self.average = compress(parameters, **how)

    def __call__(self) -> None:
        self.average.errors = [torch.zeros_like(one) for one in self.average.errors]
        self.average()


def sums(parameters: list[nn.Parameter], **how: Any) -> Any:
    average = compress(parameters, **how)

    def summed() -> None:
        average()
        for parameter in parameters:
            parameter.grad = parameter.grad * place()[1] if parameter.grad is not None else None

    return summed


class OwnStart(LowRank):
    def start(self, rank: int) -> list[torch.Tensor]:
        return [one + place()[0] for one in super().start(rank)]


class KeepsWhatItSent(TopK):
    """Adds all of its gradients to the next ones, also those that have gone."""

    def __call__(self) -> None:
        gone = [
            one.grad.flatten() + e for one, e in zip(self.parameters, self.errors, strict=True) if one.grad is not None
        ]
        super().__call__()
        self.errors = gone


def own_start(parameters: list[nn.Parameter], **how: Any) -> Any:
    return OwnStart(parameters, **how) if "rank" in how else compress(parameters, **how)


def keeps_what_it_sent(parameters: list[nn.Parameter], **how: Any) -> Any:
    return KeepsWhatItSent(parameters, **how) if "density" in how else compress(parameters, **how)


def everything(parameters: list[nn.Parameter], **how: Any) -> Any:
    """The plain average."""

    def average() -> None:
        means = averaged([one.grad for one in parameters if one.grad is not None])
        for parameter, mean in zip(parameters, means, strict=True):
            parameter.grad = mean

    return average
