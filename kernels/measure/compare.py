"""Contestants side by side in one run: variants, peers, and a copy of the same number of bytes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import singledispatch

import torch
from rich import box
from rich.table import Table

from kernels.check import Truth, quiet
from kernels.layouts import clone_memory
from kernels.machine import here
from kernels.measure.ceilings import compute_bound
from kernels.measure.contestants import (
    DIRECTIONS,
    Contestant,
    called,
    contestants,
    default_variants,
    host_times,
    make_data,
    prepared,
    setting,
    timed_call,
)
from kernels.measure.ratios import YARDSTICKS, deviation
from kernels.measure.results import where
from kernels.measure.rounds import Timed, time_point
from kernels.measure.timing import CALLS, Spread, spread
from kernels.operation import Case, Cost, Operation, Variant


@dataclass(frozen=True)
class Row:
    """One contestant at one shape, as it stands in a results file.

    Args:
        operation: its name.
        contestant: "level/rung" for a variant, a peer's name, or "copy".
        kind: "variant", "peer" or "copy".
        level: 1 to 5 for a variant, else None.
        direction: "forward" or "backward".
        shape: of the main input.
        dtype: torch's name.
        median_ms, p20_ms, p80_ms: time of one call.
        max_error_ratio: of the timed output or gradients; see kernels.check. 1 and less is right.
        layout, params, sizes: as the case has them. With operation, direction, shape and dtype they are the row's point.
        gbps: the fewest bytes that the operation can move (each input once, each output once) over the median.
        ceiling_fraction: the time of a copy of the same bytes in the same run, over the median.
        tflops, matrix_fraction: in place of these two where the operation is bound by the matrix rate: its operations over
            the median, and that as a part of the matrix rate.
        peer_spread, copy_spread: of the ratio to the best peer and to the copy; see kernels.measure.ratios.
        rounds: in which the times were taken.
        graph_calls: in each CUDA graph that was timed; None where single calls were.
        host_us: microseconds of host time of a call on no rows at all; None for a backward, a copy, and a peer or an
            operation that refuses such a call.
    """

    operation: str
    contestant: str
    kind: str
    level: int | None
    direction: str
    shape: tuple[int, ...]
    dtype: str
    median_ms: float
    p20_ms: float
    p80_ms: float
    max_error_ratio: float
    layout: str = "contiguous"
    params: Mapping[str, object] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    gbps: float | None = None
    ceiling_fraction: float | None = None
    tflops: float | None = None
    matrix_fraction: float | None = None
    peer_spread: float | None = None
    copy_spread: float | None = None
    rounds: int | None = None
    graph_calls: int | None = None
    host_us: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Rows of one run on one device, and who could not take part and why. Shows itself as a table."""

    title: str
    device: str
    rows: tuple[Row, ...]
    absent: dict[str, str]

    def __getitem__(self, contestant: str) -> Row:
        for row in self.rows:
            if row.contestant == contestant:
                return row
        why = self.absent.get(contestant, "no such contestant")
        raise KeyError(f"{contestant}: {why}; timed were {', '.join(row.contestant for row in self.rows)}")

    @property
    def times(self) -> dict[str, Spread]:
        return {row.contestant: Spread(row.median_ms, row.p20_ms, row.p80_ms) for row in self.rows}

    def as_data(self) -> list[dict]:
        """The rows as they come out of a results file: plain data, with lists where there are tuples."""
        return json.loads(json.dumps([asdict(row) for row in self.rows]))

    def __rich__(self) -> Table:
        torch_us = next((row.host_us for row in self.rows if row.contestant == "torch"), None)
        caption = "\n".join(f"{name}: {why}" for name, why in self.absent.items())
        table = Table(title=self.title, caption=caption, box=box.SIMPLE_HEAD)
        rates = {"GB/s": ("gbps", "{:,.0f}"), "of copy": ("ceiling_fraction", "{:.2f}")}
        if any(row.tflops for row in self.rows):
            rates = {"TFLOP/s": ("tflops", "{:,.0f}"), "of matrix rate": ("matrix_fraction", "{:.2f}")}
        headings = ["contestant", "median ms", "20–80 %", *rates, "error"]
        if any(row.host_us for row in self.rows):
            headings += ["host µs"] + ["of torch's"] * (torch_us is not None)
        for heading in headings:
            table.add_column(heading, justify="left" if heading == "contestant" else "right")
        for row in sorted(self.rows, key=lambda row: row.median_ms):
            cells = [
                row.contestant,
                f"{row.median_ms:.4g}",
                f"{row.p20_ms:.4g}–{row.p80_ms:.4g}",
                *(
                    "" if getattr(row, name) is None else form.format(getattr(row, name))
                    for name, form in rates.values()
                ),
                f"{row.max_error_ratio:.2f}",
            ]
            if row.host_us is not None:
                cells += [f"{row.host_us:.1f}"] + ([f"{row.host_us / torch_us:.2f}"] if torch_us else [])
            table.add_row(*cells)
        return table

    def _repr_mimebundle_(self, **kwargs: object) -> dict:
        return self.__rich__()._repr_mimebundle_(include=(), exclude=())


@singledispatch
def compare(
    op: Operation,
    case: Case | None = None,
    variants: Sequence[Variant] | None = None,
    device: str | None = None,
    direction: str = "forward",
    ceilings: Mapping[str, float] | None = None,
    **fields: object,
) -> Comparison:
    """Time variants and peers of an operation on one case (or a case's fields, such as shape=(64, 768)).

    With a dict of functions and their arguments in place of the operation, `compare({"naive": f, "fused": g}, x)`, it is
    `kernels.measure.benchmark.compare_functions`, whose result has `.plot()`.

    The timed output, or the timed gradients, of every contestant are checked.

    Args:
        variants: by default those of `kernels.measure.contestants.default_variants`.
        device: "cpu", "cuda", or None for the GPU where there is one.
        direction: "forward", or "backward" for the gradients of all differentiable inputs, given the output's.
        ceilings: as `measure.ceilings` gives them. With them, an operation that is bound by the matrix rate has TFLOP/s;
            without them all have GB/s.

    Raises:
        ValueError: an unknown direction, or an operation whose backward is not timed.
        ArithmeticError: a variant's timed output was wrong; no time is given for it, nor for the others.
    """
    if direction not in DIRECTIONS:
        raise ValueError(f"direction: got {direction!r}, expected one of {', '.join(map(repr, DIRECTIONS))}")
    if direction == "backward" and op.backward_cost is None:
        raise ValueError(f"direction: got 'backward', but {op.name} says no backward_cost; time it forward")
    case = replace(case, **fields) if case else Case(**fields)
    machine = here(device)
    cost = op.cost(case) if direction == "forward" else op.backward_cost(case)
    if variants is None:
        variants = default_variants(op, direction, machine.device)
    taking_part, absent = contestants(op, case, direction, variants, machine)
    by_name = {contestant.name: contestant for contestant in taking_part}

    torch.compiler.reset()  # so that torch.compile specialises on this shape, not on those before it
    with quiet(), setting(direction):
        timed = time_point(
            {name: contestant.kind for name, contestant in by_name.items()},
            {name: timed_call(contestant, direction) for name, contestant in by_name.items()},
            lambda seed: make_data(op, replace(case, seed=seed), direction, cost, machine.device),
            machine.device,
            prepare=lambda name, data: prepared(op, by_name[name], direction, data),
        )
        host = host_times(op, case, taking_part, machine.device) if direction == "forward" else {}
    truth = Truth(op, timed.data["case"], timed.data["inputs"], gradients=direction == "backward")
    rows = []
    for contestant in (one for one in taking_part if one.name in timed.times):
        ratio, failure = _judge(contestant, timed.outputs[contestant.name], truth, timed.data)
        if failure and contestant.kind != "peer":  # a peer's error stands in its row; it is not ours to fix
            raise ArithmeticError(f"{op.name} {contestant.name} {direction} on {case}: {failure}")
        rows.append(
            Row(
                **where(op.name, case, direction),
                **_measured(contestant, timed, by_name, cost, ceilings),
                contestant=contestant.name,
                kind=contestant.kind,
                level=contestant.level,
                max_error_ratio=ratio,
                host_us=host.get(contestant.name),
            )
        )
    title = f"{op.name} {direction}, {case}, {machine.gpu or 'CPU'}"
    return Comparison(title, machine.device, tuple(rows), absent | timed.refused)


def _measured(
    contestant: Contestant,
    timed: Timed,
    by_name: Mapping[str, Contestant],
    cost: Cost,
    ceilings: Mapping[str, float] | None,
) -> dict:
    """The fields of a row that follow from the times."""
    taken = {name: spread(times) for name, times in timed.times.items()}
    own = taken[contestant.name]
    found = vars(own) | {"rounds": timed.rounds, "graph_calls": timed.graph_calls}
    for kind in YARDSTICKS:
        names = [name for name in taken if by_name[name].kind == kind]
        if names:
            best = min(names, key=lambda name: taken[name].median_ms)
            found[f"{kind}_spread"] = deviation(timed.times[contestant.name], timed.times[best], CALLS)
    if ceilings and contestant.kind != "copy" and compute_bound(cost, ceilings):
        tflops = cost.flops / own.median_ms / 1e9
        return found | {"tflops": tflops, "matrix_fraction": tflops / ceilings["matmul_tflops"]}
    fraction = taken["copy"].median_ms / own.median_ms
    return found | {"gbps": cost.bytes / own.median_ms / 1e6, "ceiling_fraction": fraction}


def _judge(contestant: Contestant, output: object, truth: Truth, data: dict) -> tuple[float, str | None]:
    """The largest error ratio of what was timed last, and what is wrong with it, or None."""
    if contestant.kind == "copy":
        return 0.0, None if torch.equal(data["source"], data["target"]) else "the copy differs"
    if truth.gradients:
        return truth.compared({f"d{name}": gradient for name, gradient in zip(truth.gradients, output, strict=True)})
    if truth.op.updates:  # what was timed has updated the same memory many times
        inputs = data["inputs"] | {name: clone_memory(data["inputs"][name]) for name in truth.op.updates}
        return truth.compared(called(truth.op, contestant, inputs))
    return truth.compared(truth.op.call(lambda **_: output, {}))
