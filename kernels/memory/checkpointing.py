"""Activations that are computed again in the backward instead of kept: which blocks of a model, by a policy.

Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016): a checkpointed block keeps its inputs alone, and its
forward runs a second time when its gradients are wanted.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
from torch.utils.checkpoint import checkpoint as call_again

PRODUCTS = (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm, torch.ops.aten.baddbmm)


def checkpoint(model: nn.Module, policy: str | Callable[[nn.Module], bool] = "all") -> list[str]:
    """Make blocks of a model forget their activations: the children of its `nn.Sequential`s and `nn.ModuleList`s.

    The model's results and gradients stay what they were, to the bit, dropout included. It is changed in place.

    Args:
        model: with at least one such block.
        policy: "all" blocks; "keep products", which keeps the results of matrix products and computes the cheap rest again;
            or a function that says of a block whether it is to forget.

    Returns:
        the names of the blocks that forget.

    Raises:
        ValueError: another policy, or a model without blocks.
    """
    blocks = dict(_blocks(model))
    if not blocks:
        raise ValueError("model: has no nn.Sequential or nn.ModuleList, expected one with the blocks to checkpoint")
    if isinstance(policy, str) and policy not in ("all", "keep products"):
        raise ValueError(f"policy: got {policy!r}, expected 'all', 'keep products' or a function of a block")
    chosen = {name: block for name, block in blocks.items() if not callable(policy) or policy(block)}
    options = {"context_fn": partial(create_selective_checkpoint_contexts, _keep_products)}
    for block in chosen.values():
        block.forward = _forgetful(block.forward, options if policy == "keep products" else {})
    return list(chosen)


def _blocks(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The outermost ones, by name: a block within a block is computed again with it."""
    found: list[tuple[str, nn.Module]] = []
    for name, module in model.named_modules():
        if isinstance(module, nn.Sequential | nn.ModuleList) and not any(
            f"{name}.".startswith(f"{n}.") for n, _ in found
        ):
            found += [(f"{name}.{child}".lstrip("."), block) for child, block in module.named_children()]
    return found


def _forgetful(forward: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    @wraps(forward)
    def again(*args: Any, **kwargs: Any) -> Any:
        return call_again(forward, *args, use_reentrant=False, **options, **kwargs)

    return again


def _keep_products(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    keep = operator.overloadpacket in PRODUCTS
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE
