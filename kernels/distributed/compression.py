"""Gradients averaged over the ranks in fewer bytes: the largest alone, or factors of low rank. What is left out comes later."""

import math
from collections.abc import Iterable

import torch

from kernels.distributed.collectives import all_gather, all_reduce
from kernels.distributed.messages import place


class TopK:
    """Sends a rank's largest gradients and where they are: Lin et al., "Deep Gradient Compression" (2018), section 3.

    What is not sent is added to the next step's gradients (error feedback: Karimireddy et al., 2019).
    """

    def __init__(self, parameters: list[torch.nn.Parameter], density: float) -> None:
        self.parameters, self.density = parameters, density
        self.errors = [torch.zeros_like(one, dtype=torch.float32).flatten() for one in parameters]

    def __call__(self) -> None:
        """Sends 2 · (P - 1) messages: at each step values, then where they are in int32; of so many as `density` says."""
        each = [g.flatten() + error for g, error in zip(_gradients(self.parameters), self.errors, strict=True)]
        flat = torch.cat(each)
        chosen = flat.abs().topk(math.ceil(self.density * flat.numel())).indices
        every = zip(all_gather(flat[chosen]), all_gather(chosen.int()), strict=True)
        self.errors = list(flat.index_fill(0, chosen, 0).split([one.numel() for one in each]))
        total = torch.zeros_like(flat)
        for values, places in every:
            total.index_add_(0, places, values)
        _put(self.parameters, list((total / place()[1]).split([one.numel() for one in each])))


class LowRank:
    """Sends two thin factors of each matrix of gradients: PowerSGD (Vogels et al., 2019, algorithm 1), with error feedback.

    Vectors, and matrices of which the factors are no smaller, are averaged as they are. A parameter of more dimensions is
    a matrix of its first one by all others.
    """

    def __init__(self, parameters: list[torch.nn.Parameter], rank: int) -> None:
        self.parameters = parameters
        self.thin = [one.ndim > 1 and rank * sum(one.flatten(1).shape) < one.numel() for one in parameters]
        self.errors = [torch.zeros_like(one, dtype=torch.float32).flatten(1) for one in self._matrices(parameters)]
        self.right = self.start(rank)

    def start(self, rank: int) -> list[torch.Tensor]:
        """The first right factors, the same on all ranks."""
        random = torch.Generator().manual_seed(0)
        return [torch.randn(one.shape[1], rank, generator=random).to(one.device) for one in self.errors]

    def __call__(self) -> None:
        """Sends two all-reduces: of the left factors and what is not compressed, then of the right factors."""
        gradients = _gradients(self.parameters)
        whole = [one for one, thin in zip(gradients, self.thin, strict=True) if not thin]
        matrices = [g.flatten(1) + e for g, e in zip(self._matrices(gradients), self.errors, strict=True)]
        left = averaged([*(m @ right for m, right in zip(matrices, self.right, strict=True)), *whole])
        left, whole = left[: len(matrices)], left[len(matrices) :]
        left = [torch.linalg.qr(one).Q for one in left]
        self.right = averaged([m.mT @ one for m, one in zip(matrices, left, strict=True)])
        found = [one @ right.mT for one, right in zip(left, self.right, strict=True)]
        self.errors = [m - one for m, one in zip(matrices, found, strict=True)]
        thin, plain = iter(found), iter(whole)
        _put(self.parameters, [next(thin if small else plain) for small in self.thin])

    def _matrices(self, tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        return [one for one, thin in zip(tensors, self.thin, strict=True) if thin]


def compress(
    parameters: Iterable[torch.nn.Parameter], density: float | None = None, rank: int | None = None
) -> TopK | LowRank:
    """A function without arguments that averages the parameters' gradients over all ranks, in fewer bytes.

        average = compress(model.parameters(), density=0.01)
        loss.backward()
        average()               # in place of DistributedDataParallel's all-reduce
        optimizer.step()

    What it leaves out it adds to the next gradients, so that nothing is lost, only late. All ranks get the same average to
    the bit. It computes and sends in float32.

    Args:
        parameters: each must have a gradient when the function is called; the same shapes on all ranks.
        density: the share of a rank's gradients that it sends, the largest ones, above 0 and at most 1.
        rank: of the factors that each matrix of gradients is sent as, at least 1.

    ValueError: not exactly one of density and rank; one out of range; no parameters, or one without a gradient.
    """
    chosen = list(parameters)
    if not chosen:
        raise ValueError("parameters: got none, expected one at least")
    if (density is None) == (rank is None):
        raise ValueError(f"density, rank: got {density} and {rank}, expected one of the two")
    if density is not None:
        if not 0 < density <= 1:
            raise ValueError(f"density: got {density}, expected a share above 0, at most 1")
        return TopK(chosen, density)
    assert rank is not None
    if rank < 1:
        raise ValueError(f"rank: got {rank}, expected at least 1")
    return LowRank(chosen, rank)


def _gradients(parameters: list[torch.nn.Parameter]) -> list[torch.Tensor]:
    found = [one.grad.float() for one in parameters if one.grad is not None]
    if len(found) < len(parameters):
        raise ValueError(f"parameters: {len(parameters) - len(found)} of {len(parameters)} have no gradient")
    return found


def averaged(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The mean of each over all ranks, by one all-reduce for all."""
    if not tensors:
        return []
    flat = all_reduce(torch.cat([one.flatten() for one in tensors])) / place()[1]
    parts = flat.split([one.numel() for one in tensors])
    return [part.view(one.shape) for part, one in zip(parts, tensors, strict=True)]


def _put(parameters: list[torch.nn.Parameter], averages: list[torch.Tensor]) -> None:
    for parameter, average in zip(parameters, averages, strict=True):
        assert parameter.grad is not None
        parameter.grad.copy_(average.view(parameter.shape))
