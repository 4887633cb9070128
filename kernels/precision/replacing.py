"""Every nn.Linear of a model replaced by another kind of linear layer, where that kind can take its place."""

from collections.abc import Callable

from torch import nn

from kernels.modules import Swapped


def replace_linears(
    model: nn.Module, make: Callable[[nn.Linear], nn.Module], kind: type[nn.Linear] = nn.Linear
) -> Swapped:
    """Put `make(linear)` in place of each linear layer; the model is changed in place.

    Args:
        make: the new layer; where it raises ValueError, the old one is left, and the message is the reason.
        kind: of exactly which class the layers are that are replaced.

    Returns:
        the names of the layers that were replaced, and of those that were left, with the reason.

    Raises:
        TypeError: the model itself is such a layer, which has no place in another.
    """
    if type(model) is kind:
        raise TypeError(
            f"model: got a {kind.__name__}, expected a module that holds one, such as nn.Sequential(linear)"
        )
    replaced, left = [], {}
    for name, module in list(model.named_modules()):
        if type(module) is not kind:
            continue
        try:
            new = make(module)
        except ValueError as error:
            left[name] = str(error)
            continue
        new.train(module.training)
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, new)
        replaced.append(name)
    return Swapped(tuple(replaced), left)
