"""Contestants side by side in one run: variants, peers, and a copy of the same number of bytes."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import torch
from rich import box
from rich.table import Table

from kernels.check import Truth, quiet
from kernels.check import compare as compare_values
from kernels.machine import Machine, here
from kernels.measure.timing import Spread, spread, time_together
from kernels.operation import Case, Operation, Variant


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
        gbps: the fewest bytes that the operation can move (each input once, each output once) over the median.
        ceiling_fraction: the time of a copy of the same bytes in the same run, over the median.
        max_error_ratio: of the timed output; see kernels.check. 1 and less is right.
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
    gbps: float
    ceiling_fraction: float
    max_error_ratio: float


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
        return [asdict(row) | {"shape": list(row.shape)} for row in self.rows]

    def __rich__(self) -> Table:
        caption = "\n".join(f"{name}: {why}" for name, why in self.absent.items())
        table = Table(title=self.title, caption=caption, box=box.SIMPLE_HEAD)
        for heading in ("contestant", "median ms", "20–80 %", "GB/s", "of copy", "error"):
            table.add_column(heading, justify="left" if heading == "contestant" else "right")
        for row in sorted(self.rows, key=lambda row: row.median_ms):
            table.add_row(
                row.contestant,
                f"{row.median_ms:.4g}",
                f"{row.p20_ms:.4g}–{row.p80_ms:.4g}",
                f"{row.gbps:,.0f}",
                f"{row.ceiling_fraction:.2f}",
                f"{row.max_error_ratio:.2f}",
            )
        return table

    def _repr_mimebundle_(self, **kwargs: object) -> dict:
        return self.__rich__()._repr_mimebundle_(include=(), exclude=())


def compare(
    op: Operation,
    case: Case | None = None,
    variants: Sequence[Variant] | None = None,
    device: str | None = None,
    **fields: object,
) -> Comparison:
    """Time variants and peers of an operation, forward, on one case (or a case's fields, such as shape=(64, 768)).

    By default all variants on a GPU; on a CPU those of levels 1 to 3, since the time of Triton's interpreter or of CUDA C
    on a CPU says nothing about the kernel. The timed output of every contestant is checked.

    Raises:
        ArithmeticError: a variant's timed output was wrong; no time is given for it, nor for the others.
    """
    case = replace(case, **fields) if case else Case(**fields)
    machine = here(device)
    if variants is None:
        variants = op.forward if machine.device == "cuda" else tuple(v for v in op.forward if v.level <= 3)
    entrants, absent = _entrants(op, case, variants, machine)
    cost = op.cost(case)

    def inputs(seed: int) -> dict:
        data = {"inputs": op.inputs(replace(case, seed=seed), machine.device)}
        data["source"] = torch.randint(-128, 128, (cost.bytes // 2,), dtype=torch.int8, device=machine.device)
        data["target"] = torch.empty_like(data["source"])
        return data

    torch.compiler.reset()  # so that torch.compile specialises on this shape, not on those before it
    with quiet(), torch.no_grad():
        contestants = {entrant.name: entrant.call for entrant in entrants}
        times, outputs, data = time_together(contestants, inputs, machine.device)
    truth = Truth(op, case, data["inputs"], gradients=False)
    copied = spread(times["copy"]).median_ms
    rows = []
    for entrant in entrants:
        if entrant.kind == "copy":
            ratio, failure = 0.0, None if torch.equal(data["source"], data["target"]) else "the copy differs"
        else:
            output = outputs[entrant.name]
            ratio, failure = compare_values(output, truth.reference["y"], truth.baseline["y"], truth.dtype)
        if failure and entrant.kind != "peer":  # a peer's error stands in its row; it is not ours to mend
            raise ArithmeticError(f"{op.name} {entrant.name} on {case}: {failure}")
        measured = spread(times[entrant.name])
        rows.append(
            Row(
                operation=op.name,
                contestant=entrant.name,
                kind=entrant.kind,
                level=entrant.level,
                direction="forward",
                shape=case.shape,
                dtype=case.dtype,
                **vars(measured),
                gbps=cost.bytes / measured.median_ms / 1e6,
                ceiling_fraction=copied / measured.median_ms,
                max_error_ratio=ratio,
            )
        )
    return Comparison(f"{op.name} forward, {case}, {machine.gpu or 'CPU'}", machine.device, tuple(rows), absent)


@dataclass(frozen=True)
class _Entrant:
    name: str
    kind: str
    level: int | None
    call: Callable[[dict], torch.Tensor]


def _entrants(
    op: Operation, case: Case, variants: Sequence[Variant], machine: Machine
) -> tuple[list[_Entrant], dict[str, str]]:
    """Who takes part, and who cannot and why."""
    entrants, absent = [], {}
    for variant in variants:
        if reason := variant.unsupported(case, machine):
            absent[variant.key] = reason
        else:
            call = functools.partial(_call, variant.fn)
            entrants.append(_Entrant(variant.key, "variant", variant.level, call))
    for peer in op.peers:
        if reason := peer.unsupported(case, machine):
            absent[peer.name] = reason
            continue
        try:
            entrants.append(_Entrant(peer.name, "peer", None, functools.partial(_call, peer.load())))
        except ImportError as error:
            absent[peer.name] = f"not installed ({error})"
    entrants.append(_Entrant("copy", "copy", None, lambda data: data["target"].copy_(data["source"])))
    return entrants, absent


def _call(fn: Callable[..., torch.Tensor], data: dict) -> torch.Tensor:
    return fn(**data["inputs"])
