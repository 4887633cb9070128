"""Offloaded optimizers that lose updates, states or changes, or that move what need not move."""

from collections.abc import Callable

import torch

from kernels.memory.optimizer_states import OffloadedOptimizer, offload_optimizer


def one_subgroup(optimizer: torch.optim.Optimizer, groups: int, interleave: float, mirror: bool) -> OffloadedOptimizer:
    return offload_optimizer(optimizer, groups=1, interleave=interleave, mirror=mirror)


def no_mirror(optimizer: torch.optim.Optimizer, groups: int, interleave: float, mirror: bool) -> OffloadedOptimizer:
    return offload_optimizer(optimizer, groups=groups, interleave=interleave)


def taught(kind: type[OffloadedOptimizer]) -> Callable[..., OffloadedOptimizer]:
    def make(optimizer: torch.optim.Optimizer, groups: int, interleave: float, mirror: bool) -> OffloadedOptimizer:
        return kind(optimizer, groups, interleave, 2, mirror)

    return make


class LeavesStates(OffloadedOptimizer):
    """What was updated on the GPU is not brought back."""

    def _visit(self, part):
        before = {one: {name: torch.clone(value) for name, value in self.state[one].items()} for one in part}
        result = super()._visit(part)
        for one in part:
            self.state[one].update(before[one])
        return result


class UpdatesTwice(OffloadedOptimizer):
    def _visit(self, part):
        super()._visit(part)
        return super()._visit(part)


class OldGradients(OffloadedOptimizer):
    """The CPU updates by the gradients of the step before."""

    def _fetch(self, part):
        stands, arrivals = super()._fetch(part)
        self.before = getattr(self, "before", {})
        for one, stand in stands.items():
            now = stand.grad
            stand.grad, self.before[one] = self.before.get(one, now), now
        return stands, arrivals


class SeesNoChange(OffloadedOptimizer):
    """Takes the mirror for the parameter, whatever happened to it."""

    def _fetch(self, part):
        self.mirrors = {one: (stand, one._version, one.data_ptr()) for one, (stand, _, _) in self.mirrors.items()}
        return super()._fetch(part)


class NothingVisits(OffloadedOptimizer):
    def subgroups(self):
        return [(part, False) for part, _ in super().subgroups()]
