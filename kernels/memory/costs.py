"""What each block of a model keeps for the backward, and how many operations it would take to compute that again."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from kernels.memory.tracking import faked


class Cost(NamedTuple):
    """Bytes that a block keeps, its parameters and inputs not counted, and floating-point operations of its products."""

    bytes: int
    flops: int

    @property
    def importance(self) -> float:
        """Operations for each byte that is freed when the block forgets: the more, the more it is worth keeping."""
        return self.flops / self.bytes if self.bytes else float("inf")


def costs(model: nn.Module, blocks: Mapping[str, nn.Module], *args: torch.Tensor) -> dict[str, Cost]:
    """The costs of the model's submodules of these names, in one forward, in which nothing is computed or allocated."""
    with faked(model, *args) as (fake, inputs), ExitStack() as open_hooks:
        found = {name: Cost(0, 0) for name in blocks}
        for name in blocks:
            block = fake.get_submodule(name)
            block.forward = _counted(block, name, found)
            open_hooks.callback(vars(block).pop, "forward")
        fake(*inputs)
    return found


def _counted(block: nn.Module, name: str, found: dict[str, Cost]) -> Callable[..., Any]:
    forward = block.forward

    def counted(*args: Any, **kwargs: Any) -> Any:
        kept: dict[int, torch.UntypedStorage] = {}
        given = {_key(one) for one in (*args, *kwargs.values(), *block.parameters()) if isinstance(one, torch.Tensor)}

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            if _key(tensor) not in given:
                kept[_key(tensor)] = tensor.untyped_storage()
            return tensor

        with FlopCounterMode(display=False) as flops, torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one):
            result = forward(*args, **kwargs)
        size = sum(storage.nbytes() for storage in kept.values())
        found[name] = Cost(found[name].bytes + size, found[name].flops + flops.get_total_flops())
        return result

    return counted


def _key(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata
