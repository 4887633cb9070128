"""The counters of every variant in CUDA C at fixed cases: what is stored, and what has changed since.

    python tests/stored/counters.py                      print those of each operation as JSON
    python tests/stored/counters.py FOLDER [OPERATION]   write them to FOLDER/<operation>.json

Counters are exact and the same on every machine, with g++ and with clang: one sector more is a change of the kernel or of its
launch. What a variant does on a GPU alone, such as clusters, is not seen.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import kernels
from kernels import lens
from kernels.cuda.kernel import watched
from kernels.operation import Case, Operation, Variant

Launch = dict[str, Any]
"""One launch: "kernel", "grid", "block", every counter of `Trace.totals` that is not zero, "findings" and "error" if any."""

_ROWS = 3  # as many show what a launch asks for, and an odd number leaves blocks of several rows unfilled


@dataclass(frozen=True)
class Run:
    """A variant on a case: its forward, or for a variant of the backward its gradients alone."""

    op: Operation
    variant: Variant
    case: Case

    @property
    def name(self) -> str:
        direction = "forward" if self.variant in self.op.forward else "backward"
        return f"{direction} {self.variant.key} {self.case}"

    def launches(self) -> list[Launch]:
        """What it launches, counted."""
        return self._each(lambda *launch: _row(lens.trace(*launch)))

    def plan(self) -> tuple:
        """What it launches, by all that decides the counters; nothing runs."""

        def planned(kernel, grid, block, args, shared_mem):
            return kernel.name, kernel._module._source.code, kernel._module.options, grid, block, shared_mem

        return tuple(self._each(planned))

    def _each(self, look: Callable[..., Any]) -> list:
        inputs = self.op.inputs(self.case, "cpu")
        leaves = {name: inputs[name].requires_grad_() for name in self.op.differentiable(inputs)}
        inputs |= {name: leaf.clone() for name, leaf in leaves.items() if name in self.op.updates}
        found: list = []
        with watched(lambda *launch: found.append(look(*launch))):
            outputs = self.op.call(self.variant.fn, inputs)
            if self.variant not in self.op.forward:
                found.clear()
                incoming = self.op.incoming(self.case, outputs)
                through = [outputs[name] for name in incoming]
                torch.autograd.grad(through, list(leaves.values()), list(incoming.values()))
        return found


def runs(op: Operation) -> dict[str, Run | str]:
    """Every variant in CUDA C on every case that it supports, by name; or the name of an earlier rung that launches the
    same there: a rung leaves to others what it does not fit."""
    machine = kernels.machine.here("cpu")
    found: dict[str, Run | str] = {}
    known: dict[tuple, str] = {}
    seen: set[tuple] = set()  # kernels and their blocks: what is timed and brings nothing new is left out
    timed = _few(op, _timed(op))
    for variant in (variant for variant in op.variants if variant.level == 5):
        for case in _cases(op):
            if variant.unsupported(case, machine) is not None:
                continue
            run = Run(op, variant, case)
            plan = run.plan()
            new = {(kernel, code, options, block) for kernel, code, options, _, block, _ in plan} - seen
            if not new and case in timed:
                continue
            seen |= new
            first = known.setdefault((case, plan), run.name)
            found[run.name] = run if first == run.name else first
    return found


def _cases(op: Operation) -> list[Case]:
    """A few rows of each dtype and of each layout of the operation, and of what it is timed on or wants to be counted."""
    dtypes = {case.dtype: case for case in reversed(op.cases["model"])}
    layouts = {case.layout: case for case in reversed(op.cases["edge"])}
    return _few(op, (*dtypes.values(), *layouts.values(), *_timed(op)))


def _timed(op: Operation) -> tuple[Case, ...]:
    return *op.cases["bench"], *op.cases.get("counted", ())


def _few(op: Operation, cases: Iterable[Case]) -> list[Case]:
    return list(dict.fromkeys(op.few(case, _ROWS) for case in cases))


def _row(trace: lens.Trace) -> Launch:
    described = {"kernel": trace.kernel, "grid": list(trace.grid), "block": list(trace.block)}
    counters = {name: count for name, count in trace.totals.items() if count and name != "launches"}
    wrong = {"findings": list(map(str, trace.findings)), "error": trace.error}
    return described | counters | {name: what for name, what in wrong.items() if what}


def differences(stored: Sequence[Launch] | str | None, found: Sequence[Launch] | str) -> list[str]:
    """Lines that say what is not as stored: of a number what was stored, what was counted and the difference."""
    if isinstance(stored, list) and isinstance(found, list) and len(stored) == len(found):
        lines = []
        for number, (before, now) in enumerate(zip(stored, found, strict=True), 1):
            changed = [_difference(key, before, now) for key in {**before, **now} if before.get(key) != now.get(key)]
            if changed:
                lines += [f"  launch {number} of {len(found)}, {now['kernel']}:", *changed]
        return lines
    return [] if stored == found else [f"  stored: {_said(stored)}", f"  counted: {_said(found)}"]


def _difference(key: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if isinstance(before.get(key, now.get(key)), int):
        was, now_is = before.get(key, 0), now.get(key, 0)
        return f"    {key}: stored {was:,}, counted {now_is:,}, difference {now_is - was:+,}"
    return f"    {key}: stored {before.get(key, 'nothing')}, counted {now.get(key, 'nothing')}"


def _said(launches: Sequence[Launch] | str | None) -> str:
    if launches is None:
        return "nothing"
    if isinstance(launches, str):
        return f"as {launches}"
    return f"{len(launches)} launches: {', '.join(launch['kernel'] for launch in launches)}"


def collect(op: Operation) -> dict[str, list[Launch] | str]:
    """All runs of an operation, counted, by name."""
    return {name: run if isinstance(run, str) else run.launches() for name, run in runs(op).items()}


def as_json(collected: Mapping[str, Sequence[Launch] | str]) -> str:
    """A line for each launch, so that a change shows as the lines that it is about."""

    def lines(what: Sequence[Launch] | str) -> str:
        if isinstance(what, str):
            return json.dumps(what, ensure_ascii=False)
        return "[\n" + ",\n".join(f"  {json.dumps(launch)}" for launch in what) + "\n ]"

    return (
        "{\n"
        + ",\n".join(f" {json.dumps(name, ensure_ascii=False)}: {lines(what)}" for name, what in collected.items())
        + "\n}\n"
    )


if __name__ == "__main__":
    folder, names = sys.argv[1:2], sys.argv[2:] or kernels.operations()
    for op in map(kernels.operation, names):
        text = as_json(collect(op))
        if folder:
            Path(folder[0], f"{op.name}.json").write_text(text)
        else:
            print(text, end="")
