"""A graph network: proved against a dense adjacency, filled edge by edge; trained on digits and their nearest neighbours."""

import math
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import nn

from kernels.claims import Claim, Number
from kernels.measure import race
from kernels.models import GraphNetwork
from kernels.models.digits import digits, fit, labelled, neighbours
from kernels.records import ModelRecord, check_model
from kernels.system import Shown, System
from kernels.systems.graph import wrong


class Dense(GraphNetwork):
    """The same with a full matrix, filled by a loop over the edges."""

    def aggregate(self, graph: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return graph.to(h.dtype) @ h

    @staticmethod
    def adjacency(edges: torch.Tensor, num_nodes: int) -> torch.Tensor:
        joined = torch.eye(num_nodes, dtype=torch.float64)
        for source, target in edges.T.tolist():
            joined[target, source] = 1
        degree = joined.sum(1)
        return (joined / degree.sqrt() / degree.sqrt()[:, None]).to(edges.device)


class OnGraph(nn.Module):
    """A network with the graph that it is called with."""

    def __init__(self, kind: type[GraphNetwork], edges: torch.Tensor, num_nodes: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = kind(7, 3, 12, 0.0)
        self.register_buffer("graph", kind.adjacency(edges, num_nodes), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network(x, self.graph)


def check(make: type[GraphNetwork], device: str) -> tuple[float, str | None]:
    """Outputs and gradients on graphs with edges one way, a node without any, one with all, and an edge given twice."""
    random = torch.Generator().manual_seed(0)
    one_way = torch.randint(1, 40, (2, 150), generator=random)  # node 0 has none
    star = torch.stack([torch.arange(40), torch.zeros(40, dtype=torch.int64)])
    worst = 0.0
    for name, edges in {
        "one way": one_way,
        "a star": torch.cat([star, star.flip(0)], 1),
        "no edges": one_way[:, :0],
    }.items():
        x = torch.randn(40, 7, generator=random)
        record = ModelRecord("graph", built(make, edges), built(Dense, edges), partial(given, x), (), {})
        ratio, failure = check_model(record, record.build, device=device)
        if failure:
            return ratio, f"{name}: {failure}"
        worst = max(worst, ratio)
    network = make(7, 3).to(device)  # half is dropped, in training alone
    x, graph = x.to(device), network.adjacency(edges.to(device), 40)
    for training in (True, False):
        network.train(training)
        if torch.equal(network(x, graph), network(x, graph)) == training:
            return math.inf, f"two calls {'agree in training' if training else 'differ in evaluation'}"
    return worst, None


def given(x: torch.Tensor, seed: int) -> tuple[torch.Tensor]:
    return (x,)


def built(kind: type[GraphNetwork], edges: torch.Tensor) -> Callable[[int], nn.Module]:
    return lambda seed: OnGraph(kind, edges, 40)


def accuracy(graph: torch.Tensor, steps: int, seed: int = 0) -> float:
    """Fit a network to seven labels a class; the share of all other nodes that it gets right. Their pixels it has seen, in the
    graph: the task is transductive. Their classes it has not."""
    pixels, classes = (one.to(graph.device) for one in digits())
    known, others = labelled(seed=seed)
    torch.manual_seed(seed)
    model, x = GraphNetwork(64, 10).to(graph.device), pixels.flatten(1)
    fit(model, lambda: nn.functional.cross_entropy(model(x, graph)[known], classes[known]), steps, 1e-2)
    with torch.inference_mode():
        return float((model(x, graph).argmax(-1) == classes)[others].float().mean())


def related(device: str) -> Mapping[str, Number]:
    """Points more right of the digits than two related methods, with seven labels a class, from three draws of the labels:
    than the same network without the graph, and than label propagation: Zhu, Ghahramani and Lafferty (2003)."""
    edges, (_, classes) = neighbours().to(device), digits()
    graph, alone = (GraphNetwork.adjacency(some, len(classes)) for some in (edges, edges[:, :0]))
    points: dict[str, list[float]] = {"the network without the graph": [], "label propagation": []}
    for seed in range(3):
        right = accuracy(graph, 100, seed)
        for name, other in zip(points, (accuracy(alone, 100, seed), propagated(edges, seed)), strict=True):
            points[name].append(100 * (right - other))
    return {f"more than {name}": Number.of(each, "points") for name, each in points.items()}


def propagated(edges: torch.Tensor, seed: int) -> float:
    """The share that is right where each node takes the mean of its neighbours again and again, and known ones stay."""
    classes = digits()[1].to(edges.device)
    known, others = labelled(seed=seed)
    means = wrong.Mean.adjacency(edges, len(classes))
    labels = nn.functional.one_hot(classes).float()
    found = torch.zeros_like(labels)
    for _ in range(300):
        found[known] = labels[known]
        found = means @ found
    return float((found.argmax(-1) == classes)[others].float().mean())


def demo(device: str, quick: bool) -> Shown:
    edges, nodes = neighbours().to(device), len(digits()[0])
    graph, alone = (GraphNetwork.adjacency(some, nodes) for some in (edges, edges[:, :0]))
    steps = 30 if quick else 100
    found = [100 * accuracy(one, steps) for one in (graph, alone)]
    h, full = torch.randn(nodes, 64, device=device), graph.to_dense()
    raced = race({"full matrix": lambda: full @ h, "nonzeros": lambda: graph @ h}, device)
    share = 100 * graph.values().numel() / math.prod(graph.shape)
    return Shown(
        f"{nodes:,} handwritten digits, joined with those most like them: {edges.shape[1]:,} edges, seven labels a class",
        "outputs and gradients equal a full matrix, filled edge by edge, by the course's error bound",
        f"{found[0]:.1f} % of the other digits right, {found[1]:.1f} % without the graph; {share:.1f} % of the matrix is not "
        f"zero, and a sum over neighbours {raced.ratio('full matrix', 'nonzeros').median:.1f} times as fast",
        raced.plot(),
    )


SYSTEM = System(
    name="graph",
    summary="a graph network whose nodes add up what their neighbours have, by the nonzeros of the adjacency",
    modules=("kernels.models.graph", "kernels.models.digits"),
    make=GraphNetwork,
    proof="a full adjacency in float64, filled edge by edge: outputs and gradients",
    check=check,
    wrong={
        "nothing is dropped": wrong.NeverDrops,
        "it drops in evaluation too": wrong.AlwaysDrops,
        "neighbours are averaged": wrong.Mean,
        "edges run backwards": wrong.Backwards,
        "a node does not see itself": wrong.WithoutItself,
        "neighbours are not normalised": wrong.Unnormalised,
        "a node is not counted in its degree": wrong.DegreeWithoutItself,
        "the second layer has no graph": wrong.Once,
        "an edge given twice counts twice": wrong.CountsTwice,
    },
    demo=demo,
    from_torch=("the product of a CSR matrix and a dense one", "the matrix products", "AdamW"),
    claims=(
        Claim(
            name="graph-networks-outperform",
            text="our approach outperforms related methods by a significant margin",
            source="Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks (2017), abstract",
            conditions="citation networks and a knowledge graph",
            verdict="partly",
            reason="on another graph, of digits and those most like them: far more is right than without the graph, and no "
            "more than by label propagation, which learns nothing from pixels",
            evidence="measured",
            experiment=related,
        ),
    ),
)
