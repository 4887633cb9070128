"""What TorchScript's fuser joined into one kernel, which the dispatcher does not see.

On a GPU, TorchScript watches the first calls and then compiles again: runs of pointwise operators become one kernel, for the
shapes that it saw. The graph that it ran last says which.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch

_GROUP = "prim::TensorExprGroup"


def fused(seen: Sequence[str], shapes: Collection[tuple[int, ...]]) -> Iterator[tuple[str, int, int]]:
    """The fused kernels of the last call of TorchScript: name, bytes read, bytes written.

    seen: the operators of that call that went through the dispatcher. shapes: of its tensors, as far as they are known.
    Warns where TorchScript has fused for several shapes: the graph then is that of the first, and nothing is counted.
    """
    nodes = list(_nodes(torch.jit.last_executed_optimized_graph()))
    apart, called, known = Counter(map(_name, nodes)), Counter(seen), set(shapes)
    for node in nodes:
        if node.kind() != _GROUP:
            continue
        names = [_name(inner) for inner in node.g("Subgraph").nodes() if inner.kind().startswith("aten::")]
        if any(called[name] > apart[name] for name in names):
            continue  # for other shapes its operators were called one by one
        read, written = _tensors(node.inputs()), _tensors(node.outputs())
        if not known.issuperset(one.sizes() and tuple(one.sizes()) for one in read):
            warnings.warn(
                "TorchScript has fused this function for several shapes and does not say what it ran for this one: its "
                "fused kernels are not counted. Count it in a fresh process, for one shape",
                stacklevel=4,
            )
            return
        known.update(tuple(one.sizes()) for one in written)
        yield "fused_" + "_".join(names), _bytes(read), _bytes(written)


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _name(node: Any) -> str:
    return node.kind().removeprefix("aten::")


def _tensors(values: Iterator[Any]) -> list[Any]:
    """The types of those values that are tensors."""
    return [value.type() for value in values if value.type().kind() == "TensorType"]


def _bytes(tensors: list[Any]) -> int:
    return sum(torch.Size(one.sizes()).numel() * one.dtype().itemsize for one in tensors)
