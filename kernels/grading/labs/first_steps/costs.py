"""What the drills may cost: loads, stores and rounds. And who may touch the arrays."""

from __future__ import annotations

from collections.abc import Callable

from kernels.grading.exercise import Property, Trial
from kernels.grading.labs.first_steps.numbers import blocks
from kernels.grading.properties import counters
from kernels.lens.rendering import VERBS


def one_each(accesses: int) -> Property:
    """A thread loads and stores so many elements, and no more."""
    counted = ("global_load_requests", "global_store_requests")
    advice = "let each thread take one element"
    return counters.at_most(
        counted, lambda n, **_: accesses * blocks(n, 32), name="each thread has one element", advice=advice
    )


def spare_threads_rest(loads: int = 1) -> Property:
    """No line stores more often than y has elements, or loads more than so many times as often: a thread without one touches
    no array."""

    def broken(trial: Trial) -> str | None:
        elements = trial.call.args["y"].numel()
        for one in trial.accesses:
            if one.space == "global" and one.lanes > elements * (loads if one.kind == "load" else 1):
                return (
                    f"line {one.line} {VERBS[one.kind]} {', '.join(one.names)} {one.lanes:,} times, and y has {elements:,} "
                    "elements: a spare thread must not touch the arrays, not even an element that another thread has"
                )
        return None

    return counters.counted("spare threads touch nothing", (), broken, "A guard keeps them out, of each index.")


def loads(array: str, name: str, times: Callable[..., int] = lambda **_: 1) -> Property:
    """An array is loaded from global memory once, or so many times: the rest is read from shared memory."""

    def broken(trial: Trial) -> str | None:
        loads = [one for one in trial.accesses if one.kind == "load" and array in one.names and one.space == "global"]
        loaded, size = sum(one.lanes for one in loads), trial.call.args[array].numel()
        if loaded <= size * times(**trial.sizes):
            return None
        worst = max(loads, key=lambda one: one.lanes)
        return (
            f"line {worst.line} loads {array}: {loaded:,} elements in all, where {size * times(**trial.sizes):,} would do; "
            "read from shared memory what another thread has loaded"
        )

    return counters.counted(name, (), broken, "")


def few_steps(limit: Callable[..., int], name: str) -> Property:
    """A warp's accesses to shared memory, and atomic additions of its lanes, by which one addition after another would show."""
    counted = ("shared_load_wavefronts", "shared_store_wavefronts", "atomics")
    return counters.at_most(counted, limit, name=name, advice="let many threads add in each round, and few rounds do")
