"""How closely a point is timed: by graphs where calls are short, in more rounds where the result is in doubt."""

import types

import pytest
import torch

import kernels
from kernels import measure
from kernels.measure import graph, rounds
from kernels.measure.graph import GRAPH_CALLS, time_graphs

KINDS = {"ours": "variant", "torch": "peer", "copy": "copy"}


def call(data):
    data["order"].append(data["seed"])
    return data["seed"]


@pytest.fixture
def eager(monkeypatch):
    """Where a graph would be replayed, what it captured is called again."""

    def capture(contestant, prepare, data):
        ready, outputs = [prepare(one) for one in data], len(data) * [None]

        def replay():
            outputs[:] = [contestant(one) for one in ready]

        return graph.Captured(types.SimpleNamespace(replay=replay), ready, outputs)

    monkeypatch.setattr(graph, "capture", capture)


def test_a_graph_has_calls_on_inputs_of_their_own(eager):
    seeds, order = [], []

    def inputs(seed):
        seeds.append(seed)
        return {"seed": seed, "order": order}

    prepared = []
    times, outputs, data = time_graphs(
        {"ours": call}, inputs, "cpu", rounds=2, prepare=lambda name, one: prepared.append(name) or one
    )
    first, second = list(range(GRAPH_CALLS)), list(range(GRAPH_CALLS, 2 * GRAPH_CALLS))
    assert seeds == first + first + second  # to warm up, and the two rounds
    assert order == 10 * first + 5 * second  # each graph five times
    assert len(prepared) == 3 * GRAPH_CALLS
    assert outputs == {"ours": data["seed"]} == {"ours": second[-1]}
    assert len(times["ours"]) == 10


def test_the_time_of_a_graph_is_that_of_one_call(eager, monkeypatch):
    doctored = lambda *args, **kwargs: ({"ours": [1.0, 2.0]}, {"ours": ["first", "last"]}, ["one", "other"])  # noqa: E731
    monkeypatch.setattr(graph, "time_together", doctored)
    times, outputs, data = time_graphs({"ours": call}, None, "cuda", 6, None)
    assert (times, outputs, data) == ({"ours": [0.05, 0.1]}, {"ours": "last"}, "other")


def test_who_cannot_be_captured_is_named_with_the_reason(monkeypatch):
    def capture(contestant, prepare, data):
        contestant(prepare(data[0]))

    def waits(data):
        raise RuntimeError("operation not permitted when stream is capturing\nCUDA kernel errors might be …")

    monkeypatch.setattr(graph, "capture", capture)
    assert graph.refusals({"ours": lambda data: None, "waits": waits}, lambda seed: {}, lambda name, one: one) == {
        "waits": "cannot be captured in a CUDA graph: operation not permitted when stream is capturing"
    }


@pytest.fixture
def timed(monkeypatch):
    """timed(device, single={…}, graphs={…}) gives what time_point makes of such times, and how often it timed which way."""
    turns = []

    def doctored(way, times):
        def timer(calls, inputs, device, rounds, prepare):
            turns.append((way, rounds))
            return {name: [times[name]] * 5 * rounds for name in calls}, dict.fromkeys(calls), {}

        return timer

    def timed(device, single, graphs=None, refused=None, slow=None):
        turns.clear()
        monkeypatch.setattr(rounds, "time_together", doctored("single", single))
        monkeypatch.setattr(rounds, "time_graphs", doctored("graphs", graphs or {}))
        monkeypatch.setattr(rounds, "refusals", lambda calls, inputs, prepare: refused or {})
        monkeypatch.setattr(rounds, "slow", lambda kinds, calls, inputs, prepare: slow or {})
        return rounds.time_point(KINDS, dict.fromkeys(single), lambda seed: {}, device, lambda name, one: one), turns

    return timed


def test_a_clear_result_is_timed_once(timed):
    found, turns = timed("cuda", {"ours": 1.0, "torch": 2.0, "copy": 0.9})
    assert (turns, found.rounds, found.graph_calls) == ([("single", 6)], 6, None)
    assert timed("cuda", {"ours": 1.0, "torch": 0.8, "copy": 0.8})[1] == [("single", 6)]


@pytest.mark.parametrize("times", [{"torch": 0.9, "copy": 0.3}, {"torch": 0.3, "copy": 1.0}])
def test_a_result_in_doubt_is_timed_in_30_rounds(timed, times):
    found, turns = timed("cuda", {"ours": 1.0, **times})
    assert (turns, found.rounds, len(found.times["ours"])) == ([("single", 6), ("single", 30)], 30, 150)
    assert timed("cpu", {"ours": 1.0, **times})[1] == [("single", 6)]


def test_short_calls_are_timed_by_graphs_and_judged_by_those(timed):
    short = {"ours": 0.030, "torch": 0.029, "copy": 0.019}
    found, turns = timed("cuda", short, {"ours": 0.01, "torch": 0.02, "copy": 0.002})
    assert (turns, found.graph_calls) == ([("single", 6), ("graphs", 6)], 20)
    assert found.times["ours"] == [0.01] * 30
    _, turns = timed("cuda", short, {"ours": 0.02, "torch": 0.02, "copy": 0.002})
    assert turns == [("single", 6), ("graphs", 6), ("graphs", 30)]
    assert timed("cpu", short)[1] == [("single", 6)]
    assert timed("cuda", {"ours": 0.2, "torch": 0.1, "copy": 0.020})[1] == [("single", 6)]


def test_who_cannot_be_captured_is_left_out(timed):
    found, _ = timed(
        "cuda", {"ours": 0.01, "torch": 0.01, "copy": 0.01}, {"ours": 0.01, "copy": 0.1}, {"torch": "waits"}
    )
    assert (list(found.times), found.refused) == (["ours", "copy"], {"torch": "waits"})


def test_whose_calls_are_slow_is_left_out(timed, monkeypatch):
    found, _ = timed("cuda", {"ours": 1.0, "copy": 0.9, "torch": 2.0}, slow={"torch": "a call takes 2 s"})
    assert (list(found.times), found.refused) == (["ours", "copy"], {"torch": "a call takes 2 s"})


def test_a_slow_call_is_told_from_a_slow_compiler(monkeypatch):
    monkeypatch.setattr(rounds.torch.cuda, "synchronize", lambda: None)
    clock = iter([0.0, 9.0, 9.0, 9.5, 9.5, 9.55, 10.0, 10.3, 11.0, 11.25, 12.0, 12.3])
    monkeypatch.setattr(rounds.time, "perf_counter", lambda: next(clock))
    calls = {"compiles": lambda data: None, "slow": lambda data: None}
    kinds = dict.fromkeys(calls, "variant")
    assert rounds.slow(kinds, calls, lambda seed: {}, lambda name, data: data) == {"slow": "a call takes 0.25 s"}


def test_two_endless_calls_are_enough(monkeypatch):
    monkeypatch.setattr(rounds.torch.cuda, "synchronize", lambda: None)
    clock = iter([0.0, 20.0, 20.0, 38.0])
    monkeypatch.setattr(rounds.time, "perf_counter", lambda: next(clock))
    found = rounds.slow({"loop": "variant"}, {"loop": lambda data: None}, lambda seed: {}, lambda name, data: data)
    assert found == {"loop": "a call takes 18 s"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a graph is captured on a GPU only")
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_every_variant_is_captured_and_its_last_output_is_right(direction):
    compared = measure.compare(kernels.operation("layer_norm"), shape=(8, 768), dtype="bfloat16", direction=direction)
    assert not [name for name, why in compared.absent.items() if "/" in name and "captured" in why]
    assert {row.graph_calls for row in compared.rows} == {GRAPH_CALLS}
    assert all(0 < row.median_ms < 0.1 and row.max_error_ratio <= 1 for row in compared.rows if row.kind != "peer")


def test_a_peer_that_refuses_is_named_and_a_variant_that_does_is_an_error(monkeypatch):
    monkeypatch.setattr(rounds.torch.cuda, "synchronize", lambda: None)

    def narrow(data):
        raise RuntimeError("at most 65,536 columns\nand more words")

    calls = {"liger": narrow, "ours": lambda data: None}
    found = rounds.slow({"liger": "peer", "ours": "variant"}, calls, lambda seed: {}, lambda name, data: data)
    assert found == {"liger": "RuntimeError: at most 65,536 columns"}
    with pytest.raises(RuntimeError, match="at most"):
        rounds.slow({"liger": "variant"}, {"liger": narrow}, lambda seed: {}, lambda name, data: data)
