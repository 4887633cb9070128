"""Tries a submission and says which properties hold.

The submission runs in worker processes, on copies of its arguments. What it should have computed is known here alone. It is
tried twice: on values that are the same at every check, so that what is wrong stays the same while it is being fixed, and
then on fresh ones, that no text can have been written for. If it passes, sizes follow that are too large to be watched.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from kernels.grading import cuda, python
from kernels.grading.exercise import STAGES, UNWRITTEN, Call, Exercise, Property, Trial
from kernels.grading.judging import speed
from kernels.grading.judging.report import Report, Verdict
from kernels.grading.properties import known_mistakes
from kernels.lens import Launches, Trace

_SHOWN = 0  # the seed of the values that stay
_PRINTED = 2_000  # characters of what a submission prints that are shown
_UNKNOWN = "unknown: the run did not end"
_BACKENDS = {"cuda": cuda, "triton": python, "torch": python}


class NotTraced(RuntimeError):
    """A submission that did not come to a launch. A notebook shows what it says, and none of the lines that raised it."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def accepted(exercise: Exercise, text: str) -> Report:
    """A report without verdicts: whether a submission can be tried, and why not. Nothing is called."""
    refusal = _BACKENDS[exercise.language].refusal(exercise, text)
    return Report(exercise.name, headed=refusal[0], refused=refusal[1]) if refusal else Report(exercise.name)


def grade(exercise: Exercise, text: str, say: Callable[[str], object] = lambda doing: None) -> Report:
    """Try a submission: the source in its cell, without the `%%` line. say: is called with what is done next."""
    say("compiling")
    report = accepted(exercise, text)
    if report.refused:
        return report
    printed = io.StringIO()
    run = _BACKENDS[exercise.language].run
    fresh = int.from_bytes(os.urandom(6), "little")
    shown: list[Trial] = []
    # What takes long comes last, beside what was tried first.
    for seed, large in ((_SHOWN, False), (fresh, False), *[(_SHOWN, True)] * bool(exercise.unwatched)):
        # What is printed on values that change would change, too; and warnings go nowhere.
        output = printed if seed == _SHOWN and not large else io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
            calls = _calls(exercise, seed, large)
            trials = shown * large + run(exercise, text, calls, seed, _saying(say, seed))
        shown = shown or trials
        verdicts = _verdicts(exercise.properties, trials)
        if any(one.state != "held" for one in verdicts):
            break
    if exercise.bench:
        right = all(one.state == "held" for one in verdicts)
        say("timing")
        verdicts += (speed.verdict(exercise, text) if right else Verdict(speed.NAME, "waits"),)
    said = printed.getvalue()
    said = said if len(said) <= _PRINTED else f"{said[:_PRINTED]}\n…"
    return Report(exercise.name, verdicts, printed=said)


def trace(exercise: Exercise, text: str, case: str) -> Trace | Launches:
    """What the lens sees of one call, on the values that stay. NotTraced: the submission did not come to a launch."""
    backend = _BACKENDS[exercise.language]
    if (report := accepted(exercise, text)).refused:
        raise NotTraced(str(report))
    if case in exercise.unwatched:
        raise NotTraced(f"{case} is too large for the lens: choose another case")
    tried = backend.run(exercise, text, [one for one in _calls(exercise, _SHOWN) if one.case == case], _SHOWN)[0]
    if not tried.traces:
        raise NotTraced(tried.error or f"{exercise.name} launched nothing")
    return tried.traces[0] if len(tried.traces) == 1 else Launches(tried.traces)


def _saying(say: Callable[[str], object], seed: int) -> Callable[[str], object]:
    return say if seed == _SHOWN else lambda said: say(f"fresh values, {said}")


def _calls(exercise: Exercise, seed: int, large: bool = False) -> list[Trial]:
    """A trial for each case, not run yet. large: for those that run unwatched, and not for the others."""
    calls = []
    for number, (name, sizes) in enumerate(exercise.cases.items()):
        if large != (name in exercise.unwatched):
            continue
        random = torch.Generator().manual_seed(seed + number)
        if seed != _SHOWN:
            sizes = {**sizes, **{of: _one_of(drawn, random) for of, drawn in exercise.drawn.get(name, {}).items()}}
        call = exercise.call(random, **sizes)
        # Each in memory of its own: what lies beyond its end then is no one's.
        own = {name: arg.clone() if isinstance(arg, torch.Tensor) else arg for name, arg in call.args.items()}
        call = replace(call, args=own)
        _spoil(call)
        calls.append(Trial(name, sizes, call))
    return calls


def _one_of(numbers: range, random: torch.Generator) -> int:
    return numbers[int(torch.randint(len(numbers), (), generator=random))]


def _spoil(call: Call) -> None:
    """Fill the outputs with what no submission computes."""
    for name in call.expected:
        if name in call.args and name not in call.updated:
            output = call.args[name]
            output.fill_(UNWRITTEN if output.is_floating_point() else torch.iinfo(output.dtype).min)


def _verdicts(properties: Sequence[Property], trials: Sequence[Trial]) -> tuple[Verdict, ...]:
    found: list[Verdict] = []
    failed: set[str] = set()  # stages
    for one in properties:
        if failed & set(STAGES[: STAGES.index(one.stage)]):
            said = "" if found[-1].state == "waits" else "judged once everything above holds"
            found.append(Verdict(one.name, "waits", said))
        elif message := one.broken(trials):
            # One hint at a time, and none where the message names the mistake.
            hint = "" if one.stage in failed or known_mistakes.LIKE in message else one.hint_for(message)
            found.append(Verdict(one.name, "broken", message, hint))
            failed.add(one.stage)
        else:
            found.append(Verdict(one.name, "held"))
    if "runs" in failed and any(trial.error for trial in trials):
        # It broke off, and the cases after that were not tried: what did not happen until then still may.
        found = [replace(one, state="waits", message=_UNKNOWN) if one.state == "held" else one for one in found]
    return tuple(found)
