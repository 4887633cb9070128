"""Ranks that fail, and how that is said; arguments that do not fit."""

import os
import sys
import time

import pytest
import torch
import torch.distributed as dist

from kernels.distributed import (
    ContextParallelAttention,
    RankError,
    Sent,
    all_to_all,
    compress,
    ring_attention,
    run,
    shard,
)
from kernels.distributed.planned import rank_of_many
from kernels.systems.compression import trainings


def test_results_come_in_the_order_of_ranks():
    def summed(x):
        x = x + dist.get_rank()
        dist.all_reduce(x)
        return {"sum": x.requires_grad_() * 1, "rank": dist.get_rank()}

    found = run(summed, torch.ones(2), ranks=3)
    assert [one["rank"] for one in found] == [0, 1, 2]
    assert all(one["sum"].tolist() == [6, 6] for one in found)


def test_a_function_of_a_notebook(monkeypatch):
    cell = {"__name__": "__main__"}
    exec("factor = 3\ndef scaled(x): return factor * x", cell)
    assert run(cell["scaled"], 2, ranks=1) == [6]
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(TypeError, match="^fn: got <function scaled at .*install cloudpickle"):
        run(cell["scaled"], 2, ranks=1)


def test_a_rank_that_raises_is_named():
    def fails():
        if dist.get_rank() == 1:
            raise ArithmeticError("out of numbers")
        dist.recv(torch.zeros(1), 1)

    with pytest.raises(RankError, match=r"^rank 1 raised ArithmeticError: out of numbers\n(?s:.*)in fails") as caught:
        run(fails, ranks=3)
    assert caught.value.rank == 1


def test_a_rank_that_dies_is_named():
    def dies():
        if dist.get_rank() == 1:
            os._exit(3)
        dist.recv(torch.zeros(1), 1)

    with pytest.raises(RankError, match=r"^rank 1 died: its process ended with exit code 3$"):
        run(dies)


def test_ranks_that_wait_for_each_other_are_ended():
    def waits():
        if dist.get_rank() == 0:
            dist.recv(torch.zeros(1), 1)
        time.sleep(60)

    began = time.monotonic()
    with pytest.raises(
        TimeoutError, match=r"longer than 0\.5 s\nrank 0 was at\n(?s:.*)in waits\nrank 1 was at\n(?s:.*)in waits"
    ):
        run(waits, timeout=0.5)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks": 0}, "^ranks: got 0, expected at least 1"),
        ({"timeout": 0.0}, "^timeout: got 0.0, expected seconds"),
        ({"device": "tpu"}, "^device: got 'tpu', expected 'cpu', or 'cuda'"),
    ],
)
def test_wrong_options_of_run(options, message):
    with pytest.raises(ValueError, match=message):
        run(dist.get_rank, **options)


def test_a_row_for_each_rank():
    with pytest.raises(RankError, match=r"ValueError: x: got shape \(3, 4\), expected a row for each of the 2 ranks"):
        run(all_to_all, torch.ones(3, 4))
    assert run(all_to_all, torch.ones(1, 4), ranks=1)[0].tolist() == [[1, 1, 1, 1]]


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((1, 2, 4), {}, r"q, k, v: got \[\(1, 2, 4\).*expected one shape"),
        ((1, 2, 3, 4), {}, "q: got 3 positions, expected an even number"),
        ((1, 2, 4, 4), {"placing": "striped"}, "placing: got 'striped', expected one of contiguous, zigzag"),
        ((1, 2, 4, 4), {"block": 0}, "block: got 0, expected at least 1 key"),
    ],
)
def test_a_share_that_does_not_fit(shape, options, message):
    x = torch.ones(shape)
    with pytest.raises(ValueError, match=f"^{message}"):
        ring_attention(x, x, x, **options)


def test_a_sequence_that_cannot_be_shared():
    with pytest.raises(RankError, match="ValueError: x: got 6 positions, expected a multiple of 4 for 2 ranks"):
        run(shard, torch.ones(1, 6), 1)


def test_a_rank_that_no_machine_has():
    one, sent = rank_of_many(4_096, 8)
    assert sent == Sent(21, 7 * 2 * 8 * 512 * 64 * (2 + 2 + 4))
    two, _ = rank_of_many(8_192, 8)
    assert 1.9 < two / one < 2.1


def test_a_module_that_cannot_share():
    with pytest.raises(ValueError, match="^method: got 'tree', expected one of ring, ulysses"):
        ContextParallelAttention(8, 2, "tree")
    module = ContextParallelAttention(9, 3, "ulysses")
    with pytest.raises(RankError, match="num_heads: got 3, expected a multiple of the 2 ranks for method='ulysses'"):
        run(module, torch.ones(1, 2, 9))
    with pytest.raises(ValueError, match="^cache: got 2 positions, expected none"):
        module.with_cache(torch.ones(1, 2, 9), (torch.ones(1, 3, 2, 3), torch.ones(1, 3, 2, 3)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "density, rank: got None and None, expected one of the two"),
        ({"density": 0.1, "rank": 1}, "density, rank: got 0.1 and 1, expected one of the two"),
        ({"density": 0.0}, "density: got 0.0, expected a share above 0"),
        ({"rank": 0}, "rank: got 0, expected at least 1"),
    ],
)
def test_wrong_options_of_compress(options, message):
    parameters = torch.nn.Linear(4, 4).parameters()
    with pytest.raises(ValueError, match=f"^{message}"):
        compress(parameters, **options)


def test_parameters_that_have_nothing_to_average():
    with pytest.raises(ValueError, match="^parameters: got none"):
        compress([], rank=1)
    with pytest.raises(ValueError, match="^parameters: 2 of 2 have no gradient"):
        compress(torch.nn.Linear(4, 4).parameters(), rank=1)()


def test_with_error_feedback_a_training_gets_as_far():
    found = {name: losses[-1] for name, losses in run(trainings, 50, 0)[0].items()}
    plain = found["all gradients"]
    for name in "2 % of them", "rank 1":
        assert found[name] < 1.5 * plain
        assert found[f"{name.removesuffix(' of them')}, the rest forgotten"] > 2.5 * plain
