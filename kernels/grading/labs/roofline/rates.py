"""The first exercise: the lower of two ceilings, of kernels that may move or compute nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch

from kernels.grading import properties
from kernels.grading.exercise import Call, Property, Trial
from kernels.grading.labs.roofline.calls import at_once, call, exercise, machine, uniform
from kernels.grading.properties import known_mistakes
from kernels.grading.properties.differences import described
from kernels.grading.python import devices

_PLAIN = {"first": {"n": 6}, "other": {"n": 9}, "again": {"n": 6}, "alone": {"n": 1}, "many": {"n": 200}}
_IDLE = {"idle": {"n": 9, "idle": 4}}


def _attainable(random: torch.Generator, n: int, idle: int = 0) -> Call:
    """idle: so many of the kernels compute nothing, move nothing, or neither."""
    of = machine(random)
    beyond = 10 ** uniform(random, n, -2, 2)  # times the ridge point
    beyond[0] = 5.0
    beyond[1:2] = 0.2
    moved = (10 ** uniform(random, n, 4, 9)).round()
    flops = (beyond * of["peak"] / of["bandwidth"] * moved).ceil()
    moved[1 : 1 + idle : 2], flops[1 : 1 + idle : 2] = 0, 2
    flops[2 : 1 + idle : 2] = 0
    flops[idle : idle + 1] *= 0 if idle else 1
    moved[idle : idle + 1] *= 0 if idle else 1
    rate = (flops / torch.maximum(flops / of["peak"], moved / of["bandwidth"])).nan_to_num(0.0)
    return call({"flops": flops, "moved": moved, **of}, rate=rate)


_LIKES: Mapping[str, Callable[..., known_mistakes.Values]] = {
    "the higher of the two in place of the lower": lambda flops, moved, peak, bandwidth: {
        "rate": (flops / moved * bandwidth).clamp(min=peak)
    },
    "the slope alone: to the right of the ridge point, the peak is the lower one": lambda flops, moved, bandwidth, **_: {
        "rate": flops / moved * bandwidth
    },
    "peak for bandwidth, and bandwidth for peak": lambda flops, moved, peak, bandwidth: {
        "rate": (flops / moved * peak).clamp(max=bandwidth)
    },
    "bytes an operation: the intensity is operations a byte": lambda flops, moved, peak, bandwidth: {
        "rate": (moved / flops * bandwidth).clamp(max=peak)
    },
    "the intensity over the bandwidth: bytes a second times operations a byte are operations a second": (
        lambda flops, moved, peak, bandwidth: {"rate": (flops / moved / bandwidth).clamp(max=peak)}
    ),
    "a part of the peak in place of a rate": lambda flops, moved, peak, bandwidth: {
        "rate": (flops / moved * bandwidth / peak).clamp(max=1)
    },
    "a time in place of a rate": lambda flops, moved, peak, bandwidth: {
        "rate": torch.maximum(flops / peak, moved / bandwidth)
    },
    "the sum of both times, as if nothing were loaded during arithmetic": lambda flops, moved, peak, bandwidth: {
        "rate": flops / (flops / peak + moved / bandwidth)
    },
    "operations in place of operations a byte": lambda flops, peak, bandwidth, **_: {
        "rate": (flops * bandwidth).clamp(max=peak)
    },
}


def _no_nan() -> Property:
    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in trials:
            if (blank := trial.outputs["rate"].isnan()).any():
                return f"{described('rate', blank, 'is', 'are')} NaN\n(with {trial.where})"
        return None

    hint = "0 / 0 and 0 · ∞ are NaN, and NaN stays NaN in minimum and maximum. Which kernels have two zeros, or one of each?"
    return Property("no rate is NaN", broken, "right", hint)


ATTAINABLE = exercise(
    "attainable",
    call=_attainable,
    cases=_PLAIN | _IDLE,
    drawn={"other": {"n": range(3, 40)}, "many": {"n": range(100, 400)}, "idle": {"n": range(9, 40)}},
    properties=(
        properties.finishes(),
        devices.together(),
        properties.inputs_unchanged(),
        known_mistakes.right(
            "rate",
            cases=tuple(_PLAIN),
            name="rate is the lower of the two ceilings",
            likes=_LIKES,
            hint="Of a kernel with the intensity flops / moved: what does memory allow, and what does arithmetic?",
        ),
        _no_nan(),
        known_mistakes.right(
            "rate",
            cases=tuple(_IDLE),
            name="the peak where nothing is moved, 0 where nothing is computed",
            likes={
                "0 where nothing is moved: then memory does not limit": lambda flops, moved, peak, bandwidth: {
                    "rate": (flops / moved * bandwidth).clamp(max=peak).where(moved > 0, 0)
                },
                "the peak where nothing is computed: that is a rate of 0": lambda flops, moved, peak, bandwidth: {
                    "rate": (flops / moved * bandwidth).clamp(max=peak).where((moved > 0) & (flops > 0), peak)
                },
                "the peak for a kernel without operations and bytes: it computes nothing": (
                    lambda flops, moved, peak, bandwidth: {
                        "rate": (flops / moved * bandwidth).clamp(max=peak).where(moved > 0, peak)
                    }
                ),
            },
            hint="A kernel without operations has a rate of 0, whether it moves anything or not.",
        ),
        at_once("kernels"),
    ),
)
