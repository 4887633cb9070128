"""A graph network: each node adds up what its neighbours have. Kipf and Welling, "Semi-Supervised Classification with Graph
Convolutional Networks" (2017)."""

import warnings

import torch
from torch import nn

from kernels.arguments import positive


class GraphNetwork(nn.Module):
    """Two graph convolutions: A · relu(A · x · W₁) · W₂, in which A is the normalised adjacency, as `adjacency` makes it.

    Args:
        node_features: of a node.
        num_classes: logits of a node.
        hidden: features between the layers.
        dropout: share of the hidden features that is dropped in training.

    Shapes: x is (N, node_features), graph (N, N) in rows of nonzeros (CSR); the logits are (N, num_classes).

    ValueError: an x or a graph of another shape.
    """

    def __init__(self, node_features: int, num_classes: int, hidden: int = 64, dropout: float = 0.5) -> None:
        super().__init__()
        positive(node_features=node_features, num_classes=num_classes, hidden=hidden)
        self.first, self.second = nn.Linear(node_features, hidden), nn.Linear(hidden, num_classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, graph: torch.Tensor) -> torch.Tensor:
        if x.dim() != 2 or x.shape[1] != self.first.in_features:
            raise ValueError(f"x: got shape {tuple(x.shape)}, expected (N, {self.first.in_features})")
        if tuple(graph.shape) != (len(x), len(x)):
            raise ValueError(
                f"graph: got shape {tuple(graph.shape)}, expected {(len(x), len(x))}, as x has {len(x)} nodes"
            )
        h = self.dropout(self.aggregate(graph, self.first(x)).relu())
        return self.aggregate(graph, self.second(h))

    def aggregate(self, graph: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        """The weighted sum over each node's neighbours: a row of the graph reads as many rows of h as it has nonzeros."""
        return graph @ h

    @staticmethod
    def adjacency(edges: torch.Tensor, num_nodes: int) -> torch.Tensor:
        """D^-½ (A + I) D^-½ in CSR, float32: each node joined with itself, each edge divided by the roots of both degrees.

        Args:
            edges: (2, E) int64: from, and to. An edge that holds both ways stands there twice.
            num_nodes: more than the largest number in edges.

        Raises:
            ValueError: edges of another shape, or of nodes that are not there.
        """
        if edges.dim() != 2 or edges.shape[0] != 2:
            raise ValueError(f"edges: got shape {tuple(edges.shape)}, expected (2, E)")
        if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < num_nodes:
            raise ValueError(
                f"edges: got the nodes {int(edges.min())} to {int(edges.max())}, expected 0 to {num_nodes - 1}"
            )
        themselves = torch.arange(num_nodes, device=edges.device)
        source, target = torch.cat([edges, themselves.expand(2, -1)], dim=1).unique(dim=1)
        order = torch.argsort(target * num_nodes + source)
        source, target = source[order], target[order]
        degrees = torch.bincount(target, minlength=num_nodes)
        ends = torch.cat([degrees.new_zeros(1), degrees.cumsum(0)])
        values = (degrees[source] * degrees[target]).float().rsqrt()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*Sparse.* support is in beta")
            return torch.sparse_csr_tensor(ends, source, values, (num_nodes, num_nodes), check_invariants=False)
