"""Properties about what a kernel asks of memory, counted by the lens. Each function makes a `Property` with that hint."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from kernels.grading.exercise import Property, Trial
from kernels.hardware import SECTOR_BYTES
from kernels.lens import Trace
from kernels.lens.rendering import VERBS, in_words

# Times the fewest sectors, where rows begin anywhere: a warp's 32 floats in a row then touch five sectors in place of four,
# and the end of a row is a request of few lanes. To load or store everything twice is more.
_RAGGED = 1.75


def fewest_sectors(
    kind: str,
    array: str,
    *cases: str,
    name: str,
    advice: str,
    times: float = 1.0,
    ragged: Sequence[str] = (),
    hint: str = "",
) -> Property:
    """Sectors loaded from or stored to an array are at most `times` those that its bytes lie in.

    kind: "load" or "store". array: a parameter, whose tensor begins at a sector and is a multiple of 32 bytes in the cases.
    ragged: further cases, whose rows begin anywhere, so that some more are granted.
    advice: what to change, the end of the message. Atomic operations load and store, each lane by itself.
    """

    def broken(trial: Trial) -> str | None:
        accesses = [one for one in trial.accesses if one.kind in (kind, "atomic") and array in one.names]
        if not accesses:
            return f"no line {VERBS[kind]} an array {array}"
        sectors = sum(one.lanes if one.kind == "atomic" else one.sectors for one in accesses)
        fewest = -(-trial.call.args[array].nbytes // SECTOR_BYTES)
        if sectors <= fewest * (_RAGGED if trial.case in ragged else times):
            return None
        worst = max(accesses, key=lambda one: (one.kind == "atomic", one.sectors - one.fewest_sectors))
        if worst.kind == "atomic":
            return f"line {worst.line} updates {array} by atomics, one lane after another: store to it instead"
        total = f"{_times(sectors / fewest)}× the sectors that hold {array}: {sectors:,} for {fewest:,}"
        return f"{in_words(worst, array)}\n{total}; {advice}"

    return counted(name, (*cases, *ragged), broken, hint)


def _times(ratio: float) -> str:
    return f"{ratio:.3g}" if ratio < 100 else f"{ratio:,.0f}"


def no_bank_conflicts(*cases: str, name: str, advice: str, hint: str = "") -> Property:
    """Every access to shared memory takes the fewest wavefronts (CUDA C)."""

    def broken(trial: Trial) -> str | None:
        shared = [one for one in trial.accesses if one.space == "shared"]
        worst = max(shared, key=lambda one: one.wavefronts - one.fewest_wavefronts, default=None)
        if worst is None or worst.wavefronts == worst.fewest_wavefronts:
            return None
        each, fewest = (number / worst.requests for number in (worst.wavefronts, worst.fewest_wavefronts))
        verb = "reads" if worst.kind == "load" else "writes"
        return (
            f"line {worst.line} {verb} {', '.join(worst.names)}: a request of a warp takes {each:.4g} wavefronts, and "
            f"{fewest:.4g} would do; {advice}"
        )

    return counted(name, cases, broken, hint)


def at_most(
    counters: str | Sequence[str], limit: Callable[..., int], *cases: str, name: str, advice: str, hint: str = ""
) -> Property:
    """Counters of all launches, together, are at most limit(**sizes): of those of `kernels.lens.Trace.totals`, "shuffles", each
    once a warp, and "atomics" or "global atomics", each once a lane, since lanes that name one word take turns (CUDA C)."""
    counters = (counters,) if isinstance(counters, str) else counters

    def broken(trial: Trial) -> str | None:
        counts = {name: sum(_count(trace, name) for trace in trial.traces) for name in counters}
        if sum(counts.values()) <= (most := limit(**trial.sizes)):
            return None
        launch = f"{math.prod(trial.call.grid):,} blocks of {math.prod(trial.call.block):,} threads"
        found = " and ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count)
        return f"{found} in {launch}, where {most:,} would do; {advice}"

    return counted(name, cases, broken, hint)


def _count(trace: Trace, name: str) -> int:
    if name in ("atomics", "global atomics"):
        every = (one for one in trace.accesses if one.kind == "atomic")
        return sum(one.lanes for one in every if name == "atomics" or one.space == "global")
    return (trace.shuffles or 0) if name == "shuffles" else trace.totals[name]


def counted(
    name: str, cases: Sequence[str], broken: Callable[[Trial], str | None], hint: str | Mapping[str, str]
) -> Property:
    """A property of the trials that the lens watched, of some cases; of all, if none is named."""

    def judge_trials(trials: Sequence[Trial]) -> str | None:
        watched = (one for one in trials if not one.on_gpu and not one.call.strides)
        chosen = (one for one in watched if not cases or one.case in cases)
        return next((f"{message}\n(with {one.where})" for one in chosen if (message := broken(one))), None)

    return Property(name, judge_trials, "costs", hint)
