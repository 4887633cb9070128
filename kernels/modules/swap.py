"""A model's own modules replaced by those of the course, where there is one that computes the same."""

from dataclasses import dataclass

from torch import nn

from kernels.modules.norms import LayerNorm


@dataclass(frozen=True)
class Swapped:
    """What `swap` did: the names of the modules that it replaced, and of those that it left, with the reason."""

    replaced: tuple[str, ...]
    left: dict[str, str]


def swap(model: nn.Module, level: int | str | None = None) -> Swapped:
    """Put the course's modules in place of PyTorch's own, with the same parameters. The model is changed in place.

    Args:
        model: any; itself a module of PyTorch's own is left, since it has no place in another.
        level: that the new modules compute at, as `kernels.layer_norm` takes it.

    Returns:
        what was replaced, and what was not and why; containers are not named.

    Raises:
        ValueError: an unknown level.
    """
    replaced, left = [], {}
    if level is not None:
        LayerNorm(1, level=level)
    for name, module in list(model.named_modules()):
        if next(module.children(), None) is not None or isinstance(module, LayerNorm):
            continue
        if type(module) is not nn.LayerNorm:
            left[name] = f"the course has no {type(module).__name__}"
        elif not name:
            left[name] = "the model itself is a LayerNorm; make a kernels.modules.LayerNorm"
        elif module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
            left[name] = "it has hooks, which the new module would not run"
        else:
            new = LayerNorm(
                list(module.normalized_shape),
                module.eps,
                module.elementwise_affine,
                module.bias is not None,
                level=level,
            )
            new.weight, new.bias = module.weight, module.bias
            new.train(module.training)
            parent, _, child = name.rpartition(".")
            setattr(model.get_submodule(parent), child, new)
            replaced.append(name)
    return Swapped(tuple(replaced), left)
