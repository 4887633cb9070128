"""Graph networks with the mistakes that people make with degrees, directions, a node’s own features and dropout."""

from typing import Any

import torch
from torch import nn

from kernels.models import GraphNetwork


def reweighted(graph: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return torch.sparse_csr_tensor(
        graph.crow_indices(), graph.col_indices(), values, graph.shape, check_invariants=False
    )


def rows_of(graph: torch.Tensor) -> torch.Tensor:
    """The row of each nonzero."""
    return torch.repeat_interleave(torch.arange(len(graph), device=graph.device), graph.crow_indices().diff())


class Mean(GraphNetwork):
    """Divides by the degree of the node that adds up alone."""

    @staticmethod
    def adjacency(edges: torch.Tensor, num_nodes: int) -> torch.Tensor:
        graph = GraphNetwork.adjacency(edges, num_nodes)
        return reweighted(graph, 1 / graph.crow_indices().diff()[rows_of(graph)].float())


class Backwards(GraphNetwork):
    """From target to source."""

    @staticmethod
    def adjacency(edges: torch.Tensor, num_nodes: int) -> torch.Tensor:
        return GraphNetwork.adjacency(edges.flip(0), num_nodes)


class WithoutItself(GraphNetwork):
    """A node does not see what it has itself."""

    @staticmethod
    def adjacency(edges: torch.Tensor, num_nodes: int) -> torch.Tensor:
        graph = GraphNetwork.adjacency(edges, num_nodes)
        return reweighted(graph, graph.values() * (rows_of(graph) != graph.col_indices()))


class Unnormalised(GraphNetwork):
    """Adds up neighbours as they are."""

    @staticmethod
    def adjacency(edges: torch.Tensor, num_nodes: int) -> torch.Tensor:
        graph = GraphNetwork.adjacency(edges, num_nodes)
        return reweighted(graph, torch.ones_like(graph.values()))


class DegreeWithoutItself(GraphNetwork):
    """Counts a node's neighbours without the node, one at least."""

    @staticmethod
    def adjacency(edges: torch.Tensor, num_nodes: int) -> torch.Tensor:
        graph = GraphNetwork.adjacency(edges, num_nodes)
        roots = (graph.crow_indices().diff() - 1).clamp(min=1).float().sqrt()
        return reweighted(graph, 1 / (roots[rows_of(graph)] * roots[graph.col_indices()]))


class NeverDrops(GraphNetwork):
    def __init__(self, *sizes: Any) -> None:
        super().__init__(*sizes)
        self.dropout = nn.Dropout(0.0)


class AlwaysDrops(GraphNetwork):
    def forward(self, x: torch.Tensor, graph: torch.Tensor) -> torch.Tensor:
        self.dropout.train()
        return super().forward(x, graph)


class Once(GraphNetwork):
    """The second layer does not look at the neighbours."""

    def aggregate(self, graph: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return h if h.shape[1] == self.second.out_features else super().aggregate(graph, h)


class CountsTwice(GraphNetwork):
    """An edge that is given twice counts twice."""

    @staticmethod
    def adjacency(edges: torch.Tensor, num_nodes: int) -> torch.Tensor:
        both = torch.cat([edges, torch.arange(num_nodes).expand(2, -1)], dim=1)
        graph = torch.sparse_coo_tensor(
            both.flip(0), torch.ones(both.shape[1]), (num_nodes, num_nodes), check_invariants=False
        ).coalesce()
        source, target = graph.indices().flip(0)
        degrees = torch.bincount(both[1], minlength=num_nodes)
        values = graph.values() * (degrees[source] * degrees[target]).rsqrt()
        return torch.sparse_coo_tensor(graph.indices(), values, graph.shape, check_invariants=False)
