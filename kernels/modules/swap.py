"""A model's own modules replaced by those of the course, where there is one that computes the same."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from kernels.modules.norms import LayerNorm, RMSNorm
from kernels.modules.softmax import Softmax
from kernels.operation import level_number


@dataclass(frozen=True)
class Swapped:
    """What `swap` did: the names of the modules that it replaced, and of those that it left, with the reason."""

    replaced: tuple[str, ...]
    left: dict[str, str]


def swap(model: nn.Module, level: int | str | None = None) -> Swapped:
    """Put the course's modules in place of PyTorch's own LayerNorm, RMSNorm and Softmax, with the same parameters. The model is
    changed in place.

    Args:
        model: any; itself a module of PyTorch's own is left, since it has no place in another.
        level: that the new modules compute at, as `kernels.layer_norm` takes it.

    Returns:
        what was replaced, and what was not and why; containers are not named.

    Raises:
        TypeError: the model is no torch.nn.Module.
        ValueError: an unknown level.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: got {type(model).__name__}, expected a torch.nn.Module")
    replaced, left = [], {}
    if level is not None:
        level_number(level)
    for name, module in list(model.named_modules()):
        if next(module.children(), None) is not None or isinstance(module, (LayerNorm, RMSNorm, Softmax)):
            continue
        kind = type(module).__name__
        if type(module) not in (nn.LayerNorm, nn.RMSNorm, nn.Softmax):
            left[name] = f"the course has no {kind}"
        elif not name:
            left[name] = f"the model itself is a {kind}; make a kernels.modules.{kind}"
        elif module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
            left[name] = "it has hooks, which the new module would not run"
        elif isinstance(module, nn.Softmax) and module.dim is None:
            left[name] = "it has no dimension of its own, which the course's Softmax needs"
        else:
            new = twin(module, level).train(module.training)
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, new)
            replaced.append(name)
    return Swapped(tuple(replaced), left)


def twin(module: nn.Module, level: int | str | None) -> nn.Module:
    """The course's module that computes as one of PyTorch's, with the same parameters."""
    new: nn.Module
    if isinstance(module, nn.Softmax):
        return Softmax(module.dim, level)
    if isinstance(module, nn.RMSNorm):
        new = RMSNorm(list(module.normalized_shape), module.eps, module.elementwise_affine, level=level)
    else:
        assert isinstance(module, nn.LayerNorm)
        shape, biased = list(module.normalized_shape), module.bias is not None
        new = LayerNorm(shape, module.eps, module.elementwise_affine, biased, level=level)
        new.bias = module.bias
    new.weight = module.weight
    return new
