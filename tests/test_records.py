"""A toy of each record, and wrong twins of it that its check rejects."""

import dataclasses

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

from kernels.operation import Variant
from kernels.records import (
    ModelRecord,
    OptimizerRecord,
    ProcessRecord,
    check_model,
    check_optimizer,
    check_process,
)


class Momentum(torch.optim.Optimizer):
    """Gradient descent with momentum: v ← 0.9 · v + g; p ← p - 0.1 · v."""

    def __init__(self, parameters, decay=0.9, first_steps=1):
        super().__init__(parameters, {})
        self.decay, self.first_steps = decay, first_steps

    @torch.no_grad()
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            velocity = self.state[parameter].setdefault("v", torch.zeros_like(parameter, dtype=torch.float32))
            velocity.mul_(self.decay).add_(parameter.grad.float() * self.first_steps)
            parameter.sub_(0.1 * velocity)


def momentum(name, **options):
    return Variant(1, name, lambda parameters: Momentum(parameters, **options), "one loop", ())


MOMENTUM = OptimizerRecord(
    name="momentum",
    variants=(momentum("loop"),),
    twin=lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    shapes=((3, 5), (7,), (1,)),
    dtypes=("float32", "bfloat16"),
    steps=4,
    wrong=(momentum("no-momentum", decay=0.0), momentum("decay", decay=0.905), momentum("gradient", first_steps=1.01)),
)


def test_an_optimizer():
    for variant in MOMENTUM.variants:
        ratio, failure = check_optimizer(MOMENTUM, variant)
        assert not failure and 0 < ratio <= 1
    for variant, step in zip(MOMENTUM.wrong, (2, 2, 1), strict=True):
        failure = check_optimizer(dataclasses.replace(MOMENTUM, steps=step), variant)[1]
        assert failure.startswith(f"float32, step {step}, parameter 0: "), variant.name


class Block(nn.Module):
    """x + W₂ · gelu(W₁ · norm(x)), which counts its calls."""

    def __init__(self, seed, mode="kept", activation="none"):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(16, 24), nn.Linear(24, 16), nn.LayerNorm(16)
        self.act = nn.GELU(approximate=activation)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.mode = mode
        with torch.no_grad():
            for number, parameter in enumerate(self.parameters()):
                parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed + number)))

    def mlp(self, x):
        if self.mode == "counted twice":
            self.calls += 1
        return self.down(self.act(self.up(self.norm(x))))

    def forward(self, x):
        if self.mode != "counted twice":
            self.calls += 1
        if self.mode == "kept":
            return x + self.mlp(x)
        if self.mode == "detached":
            with torch.no_grad():
                return x + self.mlp(x)
        return x + checkpoint(self.mlp, x, use_reentrant=False)


def detached(seed):
    module = Block(seed)
    module.mlp = lambda x: Block.mlp(module, x.detach())
    return module


CHECKPOINTED = ModelRecord(
    name="checkpointed_mlp",
    build=lambda seed: Block(seed, mode="checkpointed"),
    twin=Block,
    batch=lambda seed: (torch.randn(4, 16, generator=torch.Generator().manual_seed(seed)),),
    from_torch=("linear", "gelu", "layer_norm"),
    wrong={
        "counted twice": lambda seed: Block(seed, mode="counted twice"),
        "detached": detached,
        "approximate": lambda seed: Block(seed, mode="checkpointed", activation="tanh"),
        "another state dict": lambda seed: nn.Sequential(Block(seed)),
    },
)


def test_a_model():
    ratio, failure = check_model(CHECKPOINTED, CHECKPOINTED.build)
    assert not failure and 0 < ratio <= 1
    expected = {
        "counted twice": "state calls",
        "detached": "gradient of input 0",
        "approximate": "output 0",
        "another state dict": "state dict differs from the twin's in 0.calls, ",
    }
    for name, build in CHECKPOINTED.wrong.items():
        assert expected[name] in check_model(CHECKPOINTED, build)[1], name


def matrices(dtype):
    random = torch.Generator().manual_seed(0)
    return (torch.randn(shape, generator=random).to(dtype) for shape in ((6, 32), (32, 8)))


def sharded_matmul(rank, world, reduced=True):
    """A product of which each rank has a share of the columns of x and of the rows of w."""
    x, w = matrices(torch.float32)
    y = x.chunk(world, dim=1)[rank] @ w.chunk(world, dim=0)[rank]
    if reduced:
        dist.all_reduce(y)
    return {"y": y}


def not_reduced(rank, world):
    return sharded_matmul(rank, world, reduced=False)


def reduced_on_the_first(rank, world):
    """Rank 0 alone gets the sum."""
    y = sharded_matmul(rank, world, reduced=False)["y"]
    dist.reduce(y, dst=0)
    return {"y": y}


def fails_on_the_last(rank, world):
    if rank == world - 1:
        raise ArithmeticError("the last rank is out of numbers")
    return sharded_matmul(rank, world)


def matmul(rank, world, dtype):
    x, w = matrices(dtype)
    return {"y": x @ w}


SHARDED = ProcessRecord(
    name="sharded_matmul",
    fn=sharded_matmul,
    twin=matmul,
    dtype="float32",
    world=2,
    wrong={"not reduced": not_reduced, "reduced on the first": reduced_on_the_first},
)


def test_ranks():
    ratio, failure = check_process(SHARDED, SHARDED.fn)
    assert not failure and 0 < ratio <= 1
    for (name, fn), rank in zip(SHARDED.wrong.items(), (0, 1), strict=True):
        assert f"rank {rank}, y: " in check_process(SHARDED, fn)[1], name
    with pytest.raises(torch.multiprocessing.ProcessRaisedException, match="the last rank is out of numbers"):
        check_process(SHARDED, fails_on_the_last)
