"""Activations that are computed again in the backward instead of kept: which blocks of a model, by a policy.

Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016): a checkpointed block keeps its inputs alone, and its
forward runs a second time when its gradients are wanted.
"""

from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
from torch.utils.checkpoint import checkpoint as call_again

from kernels.memory.costs import costs
from kernels.memory.tracking import track

PRODUCTS = (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm, torch.ops.aten.baddbmm)


def checkpoint(
    model: nn.Module,
    policy: str | Callable[[nn.Module], bool | float] = "all",
    *,
    bytes: int | None = None,
    inputs: tuple[torch.Tensor, ...] = (),
) -> list[str]:
    """Make blocks of a model forget their activations: the children of its `nn.Sequential`s and `nn.ModuleList`s.

    The model's results and gradients stay what they were, to the bit, dropout included. It is changed in place; blocks that
    forgot before and are not chosen now keep their activations again.

    Args:
        model: with at least one such block.
        policy: "all" blocks; "keep products", which keeps the results of matrix products and computes the cheap rest again;
            or a function that says of a block whether it is to forget, and with `bytes` how soon: the greatest values first.
            The two strings let those blocks forget first whose second forward takes the fewest operations for a byte freed.
        bytes: what the tracked peak of a training step may take, at most; as few blocks as that order allows forget. None
            for all that the policy chooses.
        inputs: with `bytes`, what the model is called with; their shapes and dtypes count.

    Returns:
        the names of the blocks that forget, in the model's order.

    Raises:
        ValueError: another policy, a model without blocks, a block with a forward of its own instead of its class's, `bytes`
            without `inputs` or the reverse, or fewer bytes than any number of blocks in that order reaches: the error names
            the smallest peak. The model is then what it was.
    """
    blocks = dict(_blocks(model))
    if not blocks:
        raise ValueError("model: has no nn.Sequential or nn.ModuleList, expected one with the blocks to checkpoint")
    if isinstance(policy, str) and policy not in ("all", "keep products"):
        raise ValueError(f"policy: got {policy!r}, expected 'all', 'keep products' or a function of a block")
    if own := [name for name, block in blocks.items() if "forward" in vars(block) and not _ours(block)]:
        raise ValueError(f"model: its block {own[0]} has a forward of its own, expected its class's")
    if (bytes is None) != (not inputs):
        raise ValueError(f"inputs: got {len(inputs)}, expected what the model is called with, together with `bytes`")
    forward = _forgets_all_but_products if policy == "keep products" else _forgets
    chosen = [name for name, block in blocks.items() if not callable(policy) or policy(block)]
    if bytes is not None:
        before = {name: vars(block).get("forward") for name, block in blocks.items()}
        try:
            chosen = _within(bytes, model, blocks, _order(model, blocks, chosen, policy, inputs), forward, inputs)
        finally:
            for name, method in before.items():
                vars(blocks[name]).pop("forward", None)
                if method is not None:
                    blocks[name].forward = method
    _choose(blocks, chosen, forward)
    return [name for name in blocks if name in chosen]


def _order(
    model: nn.Module,
    blocks: dict[str, nn.Module],
    chosen: list[str],
    policy: str | Callable[[nn.Module], bool | float],
    inputs: tuple[torch.Tensor, ...],
) -> list[str]:
    """The chosen blocks, those first that forget first."""
    if callable(policy):
        return sorted(chosen, key=lambda name: -float(policy(blocks[name])))
    _choose(blocks, [], _forgets)
    importance = {name: cost.importance for name, cost in costs(model, blocks, *inputs).items()}
    return sorted(chosen, key=lambda name: importance[name])


def _within(
    budget: int,
    model: nn.Module,
    blocks: dict[str, nn.Module],
    order: list[str],
    forward: Callable[..., Any],
    inputs: tuple[torch.Tensor, ...],
) -> list[str]:
    """The first blocks in this order with which the tracked peak stays within the budget."""
    peaks = []
    for count in range(len(order) + 1):
        _choose(blocks, order[:count], forward)
        peaks.append(track(model, *inputs).bytes)
        if peaks[-1] <= budget:
            return order[:count]
    raise ValueError(
        f"bytes: got {budget:,}, expected at least {min(peaks):,}, the smallest peak, "
        f"with {peaks.index(min(peaks))} of {len(blocks)} blocks checkpointed"
    )


def _choose(blocks: dict[str, nn.Module], chosen: list[str], forward: Callable[..., Any]) -> None:
    """A method bound to its block is copied with it: a copy's block calls itself, and not the one that it was copied from."""
    for name, block in blocks.items():
        if name in chosen:
            block.forward = MethodType(forward, block)
        elif _ours(block):
            del block.forward


def _ours(block: nn.Module) -> bool:
    return getattr(vars(block).get("forward"), "__func__", None) in (_forgets, _forgets_all_but_products)


def _blocks(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The outermost ones, by name: a block within a block is computed again with it."""
    found: list[tuple[str, nn.Module]] = []
    for name, module in model.named_modules():
        if isinstance(module, nn.Sequential | nn.ModuleList) and not any(
            f"{name}.".startswith(f"{n}.") for n, _ in found
        ):
            found += [(f"{name}.{child}".lstrip("."), block) for child, block in module.named_children()]
    return found


def _forgets(block: nn.Module, *args: Any, **kwargs: Any) -> Any:
    return call_again(type(block).forward, block, *args, use_reentrant=False, **kwargs)


def _forgets_all_but_products(block: nn.Module, *args: Any, **kwargs: Any) -> Any:
    contexts = partial(create_selective_checkpoint_contexts, _keep_products)
    return call_again(type(block).forward, block, *args, use_reentrant=False, context_fn=contexts, **kwargs)


def _keep_products(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    keep = operator.overloadpacket in PRODUCTS
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE
