"""Timing: turns, a cold start of every call, and nothing of the host in a GPU's time."""

import types

import pytest

from kernels.measure import timing
from kernels.measure.timing import Spread, spread, time_together


def test_contestants_take_turns_in_both_orders_on_fresh_data():
    order, seeds = [], []

    def inputs(seed):
        seeds.append(seed)
        return {}

    contestants = {name: lambda data, name=name: order.append(name) for name in "ab"}
    times, _, _ = time_together(contestants, inputs, "cpu", rounds=2, calls=1)
    assert order == ["a", "b", "a", "b", "b", "a"]  # the first two warm up
    assert seeds == [0, 0, 1]
    assert {name: len(taken) for name, taken in times.items()} == {"a": 2, "b": 2}


def test_spread():
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == Spread(3.5, 2.0, 5.0)


def test_the_forward_of_a_backward_contestant_is_outside_the_clock():
    inside = []

    def probe(name, data):
        inside.append("prepared")
        return data | {"prepared": name}

    def contestant(data):
        inside.append("timed")
        assert data["prepared"] == "probe"

    time_together({"probe": contestant}, lambda seed: {}, "cpu", rounds=2, calls=2, prepare=probe)
    assert inside == ["prepared", "timed", "timed"] * 3


class _Gpu:
    """A GPU that does what is queued one after the other, on a clock of its own that runs while the host works.

    Stands in for torch in the timing: overwriting the buffer takes it 60 µs, a contestant's kernel 20.
    """

    int8 = None

    def __init__(self):
        self.host_s = self.free_s = 0.0  # the host's time, and when the GPU will have done what is queued
        self.spins = []
        self.cuda = types.SimpleNamespace(Event=self.event, _sleep=self.sleep, synchronize=self.synchronize)

    def queue(self, seconds):
        self.free_s = max(self.free_s, self.host_s) + seconds

    def empty(self, *args, **kwargs):
        return types.SimpleNamespace(zero_=lambda: self.queue(60e-6))

    def sleep(self, cycles):
        self.spins.append(cycles)
        self.queue(cycles / 2e9)

    def synchronize(self):
        self.host_s = max(self.host_s, self.free_s)

    def event(self, enable_timing):
        event = types.SimpleNamespace(record=lambda: setattr(event, "at", max(self.free_s, self.host_s)))
        event.query = lambda: event.at <= self.host_s
        event.elapsed_time = lambda end: 1e3 * (end.at - event.at)
        return event


@pytest.mark.parametrize("host_us", [1, 50, 500, 5000])
@pytest.mark.parametrize("call_before_is_quick", [False, True])
def test_on_a_gpu_no_time_of_the_host_is_in_the_clock(monkeypatch, host_us, call_before_is_quick):
    """Whatever the host needs for a call, and were it more than the call before the measurement needed."""
    gpu = _Gpu()
    monkeypatch.setattr(timing, "torch", gpu)
    monkeypatch.setattr(timing, "time", types.SimpleNamespace(perf_counter=lambda: gpu.host_s))
    calls = []

    def contestant(data):
        calls.append(data)
        gpu.host_s += host_us * 1e-6 / (4 if call_before_is_quick and len(calls) == 2 else 1)
        gpu.queue(20e-6)

    times, _ = timing._gpu_times(contestant, {}, calls=5)
    assert times == pytest.approx([0.02] * 5)
    assert len(gpu.spins) <= 3


def test_the_gpu_does_not_spin_for_as_long_as_a_first_call_compiles(monkeypatch):
    gpu = _Gpu()
    monkeypatch.setattr(timing, "torch", gpu)
    monkeypatch.setattr(timing, "time", types.SimpleNamespace(perf_counter=lambda: gpu.host_s))
    calls = []

    def contestant(data):
        calls.append(data)
        gpu.host_s += 10 if len(calls) == 1 else 50e-6
        gpu.queue(20e-6)

    timing._gpu_times(contestant, {}, calls=5)
    assert gpu.host_s < 11


def test_a_contestant_that_waits_for_the_gpu_itself_is_timed_with_its_wait(monkeypatch):
    gpu = _Gpu()
    monkeypatch.setattr(timing, "torch", gpu)
    monkeypatch.setattr(timing, "time", types.SimpleNamespace(perf_counter=lambda: gpu.host_s))

    def contestant(data):
        gpu.queue(20e-6)
        gpu.synchronize()
        gpu.host_s += 100e-6

    times, _ = timing._gpu_times(contestant, {}, calls=5)
    assert len(gpu.spins) == timing.SPINS
    assert all(ms == pytest.approx(0.02) or ms == pytest.approx(0.12) for ms in times)
