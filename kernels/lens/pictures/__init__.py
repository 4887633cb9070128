"""Pictures of what the lanes of a warp ask of memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kernels.cuda.source import Line
from kernels.figures import Picture
from kernels.lens.pictures.banks import banks
from kernels.lens.pictures.sectors import sectors
from kernels.lens.request import Request

if TYPE_CHECKING:
    from kernels.lens.result import Access, Trace


def figure(
    traces: Trace | Mapping[str, Trace],
    array: str | None = None,
    *,
    line: Line | None = None,
    kind: str | None = None,
    request: int = 0,
) -> Picture:
    """A picture of one access: of global memory which lane touches which sector, of shared memory which bank.

    traces: one, of which each of the first few requests becomes a frame; or several by label, such as
        {"stride 1": …, "stride 2": …}, of which one request of each becomes a frame.
    array, line, kind: as many as it takes to name the access: a parameter or variable, a line of the source or of a header
        ("vectors.cuh:45"), and "load", "store" or "atomic".
    request: the first to draw of `Access.samples`; of several traces, the only one.

    Nothing depends on the machine: the same launch gives the same picture.
    ValueError: no access or more than one is meant, it is not of global or shared memory, or its lanes are not known.
    IndexError: so many requests were not kept.
    """
    several = traces if isinstance(traces, Mapping) else {"": traces}
    if not several:
        raise ValueError("traces: got an empty mapping, expected a trace for each frame")
    accesses = {label: meant(trace, array, line, kind) for label, trace in several.items()}
    one = next(iter(accesses.values()))
    shapes = {(access.space, access.kind, access.width) for access in accesses.values()}
    if len(shapes) > 1:
        raise ValueError(f"traces: expected accesses of one kind and width, got {sorted(shapes)}")
    kept = min(len(access.samples) for access in accesses.values())
    if not 0 <= request < kept:
        raise IndexError(f"request: got {request}, expected 0 to {kept - 1}: {kept} requests were kept")
    if isinstance(traces, Mapping):
        requests = {label: access.samples[request] for label, access in accesses.items()}
    else:
        requests = _named(one.samples[request:])
    drawn, frames = (
        banks(requests, one.width) if one.space == "shared" else sectors(requests, one.width, one.kind == "atomic")
    )
    of = "banks of shared memory serve which lanes" if one.space == "shared" else "sectors the lanes of a warp touch"
    what = f"{one.kind} of {', '.join(one.names)}, {one.width} bytes a lane"
    return Picture(drawn, f"Which {of}: {what}. {_summary(frames)}.")


def _summary(frames: list[tuple[str, str]]) -> str:
    """What happens in the frames, said once where it is the same in all."""
    if len({words for _, words in frames}) > 1:
        return "; ".join(f"{name}: {words}" for name, words in frames)
    names = [name for name, _ in frames]
    return f"{names[0]}{f' to {names[-1]}' if names[1:] else ''}: {frames[0][1]}{' each' if names[1:] else ''}"


def meant(trace: Trace, array: str | None, line: Line | None, kind: str | None) -> Access:
    """The one access that is meant."""
    asked = {"array": array, "line": line, "kind": kind}
    asked_for = ", ".join(f"{name}={value!r}" for name, value in asked.items() if value is not None) or "nothing"
    drawable = [one for one in trace.accesses if one.samples and one.space in ("global", "shared")]
    meant = [
        one for one in drawable if array in (None, *one.names) and line in (None, one.line) and kind in (None, one.kind)
    ]
    if len(meant) == 1:
        return meant[0]
    there = [f"line {one.line}: {one.kind} {', '.join(one.names) or one.space}" for one in meant or drawable]
    found = "several accesses" if meant else "no access whose lanes are known"
    raise ValueError(
        f"array, line, kind: {asked_for} means {found} of {trace.kernel}; there are\n  "
        + "\n  ".join(there or ["none"])
    )


def _named(requests: tuple[Request, ...]) -> dict[str, Request]:
    """Requests by who made them, in as few words as tell them apart."""
    one_block = len({one.block for one in requests}) == 1
    warps = [f"warp {one.warp}" if one_block else f"block {_block(one)}, warp {one.warp}" for one in requests]
    named, turns = {}, dict.fromkeys(warps, 0)
    for who, request in zip(warps, requests, strict=True):
        turns[who] += 1
        named[f"{who}, request {turns[who]}" if warps.count(who) > 1 else who] = request
    return named


def _block(request: Request) -> str:
    x, *more = request.block
    return str(request.block) if any(more) else str(x)
