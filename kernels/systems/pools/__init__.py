"""A caching allocator's pools: the simulator against one that marks every 512 bytes, and against a GPU's."""

import math
import random
from collections.abc import Mapping, Sequence

import torch
from torch import nn

from kernels.claims import Claim, Number
from kernels.figures import Picture
from kernels.memory.pools import MIDDLE, MIDDLE_SEGMENT, ROUND, SMALL, SMALL_SEGMENT, UNIT, Event, Pool, record
from kernels.system import Shown, System
from kernels.systems.pools import wrong


def trace(seed: int, events: int = 200, largest: int = 40 << 20) -> list[Event]:
    """Allocations of all sizes, and frees in any order."""
    drawn = random.Random(seed)
    living: list[int] = []
    found: list[Event] = []
    for number in range(events):
        if living and drawn.random() < 0.45:
            found.append(Event(living.pop(drawn.randrange(len(living))), None))
        else:
            living.append(number)
            found.append(Event(number, round(math.exp(drawn.uniform(0, math.log(largest))))))
    return found


def marked(events: Sequence[Event], expandable: bool = False) -> list[tuple[int, int]]:
    """(reserved, allocated) after each event, by an allocator that marks 512 bytes at a time and never merges a thing."""
    segments: list[tuple[bool, bytearray]] = []
    held: dict[int, tuple[int, int, int]] = {}
    reserved, allocated, found = 0, 0, []
    for tensor, size in events:
        if size is None:
            segment, start, end = held.pop(tensor)
            segments[segment][1][start:end] = bytes(end - start)
            allocated -= UNIT * (end - start)
        else:
            units = -(-size // UNIT)
            small = units * UNIT <= SMALL
            runs = free_runs(segments, small, units)
            if not runs:
                reserved += grown(segments, small, units, expandable)
                runs = free_runs(segments, small, units)
            length, number, start = min(runs)
            splits = length > units if small or expandable else (length - units) * UNIT > SMALL
            end = start + (units if splits else length)
            segments[number][1][start:end] = b"\1" * (end - start)
            held[tensor] = number, start, end
            allocated += UNIT * (end - start)
        found.append((reserved, allocated))
    return found


def free_runs(segments: list[tuple[bool, bytearray]], small: bool, units: int) -> list[tuple[int, int, int]]:
    """(length, segment, start) of all free runs that have room."""
    runs = []
    for number, (kind, marks) in enumerate(segments):
        start = marks.find(0) if kind == small else -1
        while start >= 0:
            end = marks.find(1, start)
            end = len(marks) if end < 0 else end
            runs += [(end - start, number, start)] if end - start >= units else []
            start = marks.find(0, end)
    return runs


def grown(segments: list[tuple[bool, bytearray]], small: bool, units: int, expandable: bool) -> int:
    """Adds a segment with room, or pages to the one that grows; the bytes that it took."""
    size, page = units * UNIT, SMALL_SEGMENT if small else MIDDLE_SEGMENT
    if expandable:
        if not any(kind == small for kind, _ in segments):
            segments.append((small, bytearray()))
        marks = next(marks for kind, marks in segments if kind == small)
        at_the_end = len(marks) - len(marks.rstrip(b"\0"))
        whole = -(-(size - UNIT * at_the_end) // page) * page
        marks.extend(bytes(whole // UNIT))
    else:
        whole = page if small or size < MIDDLE else -(-size // ROUND) * ROUND
        segments.append((small, bytearray(whole // UNIT)))
    return whole


def check(make: type[Pool], device: str) -> tuple[float, str | None]:
    """Reserved and allocated bytes after every event of five traces, their peaks, and what lies idle, of segments of fixed size
    and of those that grow; what is refused; and on a GPU, what its own pool reserves for the same trace."""
    for seed, expandable in ((seed, expandable) for seed in range(5) for expandable in (False, True)):
        pool, events = make(expandable), trace(seed)
        wanted = marked(events, expandable)
        which = f"trace {seed}, segments {'that grow' if expandable else 'of fixed size'}"
        for number, (event, expected) in enumerate(zip(events, wanted, strict=True)):
            pool.replay([event])
            if (pool.reserved, pool.allocated) != expected:
                got = f"{pool.reserved:,} reserved and {pool.allocated:,} allocated"
                return math.inf, f"{which}, event {number}: {got}, expected {expected[0]:,} and {expected[1]:,}"
        peaks = max(reserved for reserved, _ in wanted), max(allocated for _, allocated in wanted)
        if (pool.peak_reserved, pool.peak_allocated) != peaks or not math.isclose(pool.idle, 1 - peaks[1] / peaks[0]):
            return math.inf, f"{which}: other peaks than {peaks[0]:,} and {peaks[1]:,}, or another part of them idle"
        if seed == 0 and not expandable and device == "cuda" and (reserved := on_gpu(events)) != pool.reserved:
            return math.inf, f"a GPU's pool reserves {reserved:,} bytes, and the simulator {pool.reserved:,}"
    for events in ([Event(0, 0)], [Event(0, None)], [Event(0, 1), Event(0, 1)]):
        try:
            make().replay(events)
            return math.inf, f"{events[-1]} is taken, after {events[:-1]}"
        except ValueError:
            pass
    return 0.0, None


def on_gpu(events: Sequence[Event]) -> int:
    """What a pool of its own on a GPU has reserved after a trace."""
    pool = torch.cuda.MemPool()
    held: dict[int, torch.Tensor] = {}
    with torch.cuda.use_mem_pool(pool):
        for tensor, size in events:
            if size is None:
                del held[tensor]
            else:
                held[tensor] = torch.empty(size, dtype=torch.uint8, device="cuda")
    return sum(segment["total_size"] for segment in pool.snapshot())


def growing(steps: int) -> list[Event]:
    """The allocations of a small model whose input is a little longer at each step, as a sequence that is generated."""
    return allocations([1000 + 200 * step for step in range(steps)])


def allocations(rows: Sequence[int]) -> list[Event]:
    """Of a small model that is called with inputs of so many rows."""
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).to("meta")

    def run() -> None:
        for count in rows:
            model(torch.empty(count, 256, device="meta"))

    return record(run)


def changing(device: str) -> Mapping[str, Number]:
    """What is reserved in 40 steps, over what is in use at the peak, by the sizes of the batches."""
    drawn = random.Random(0)
    batches = {
        "one batch size": [4_000] * 40,
        "sizes at random": [drawn.randrange(1_000, 9_000) for _ in range(40)],
        "growing sizes": [1_000 + 200 * step for step in range(40)],
    }
    found = {}
    for name, rows in batches.items():
        events = allocations(rows)
        for expandable, segments in ((False, "fixed segments"), (True, "expandable segments")):
            pool = Pool(expandable).replay(events)
            found[f"{name}, {segments}"] = Number.exact(pool.peak_reserved / pool.peak_allocated, "×")
    return found


def demo(device: str, quick: bool) -> Shown:
    import plotly.graph_objects as go

    events = growing(10 if quick else 40)
    lines, said = [], []
    for name, expandable in (("segments of fixed size", False), ("segments that grow", True)):
        pool, reserved = Pool(expandable), []
        for event in events:
            reserved.append(pool.replay([event]).reserved / 2**20)
        lines.append(go.Scatter(y=reserved, name=name, mode="lines", line={"shape": "hv"}))
        said.append(f"{name} {reserved[-1]:.0f} MiB, {pool.idle:.0%} of it idle at the peak")
    layout = {"xaxis": {"title": "allocations and frees"}, "yaxis": {"title": "reserved, MiB", "rangemode": "tozero"}}
    return Shown(
        "what a pool reserves for a model whose input grows from step to step",
        "reserved and allocated bytes after each of 1,000 events equal those of an allocator that marks every unit",
        "; ".join(said),
        Picture(go.Figure(lines, layout), f"Reserved memory by event: {'; '.join(said)}."),
    )


SYSTEM = System(
    name="pools",
    summary="a caching allocator’s pools, simulated from a recorded trace: what is reserved, and what lies idle",
    modules=("kernels.memory.pools",),
    make=Pool,
    proof="an allocator that marks every 512 bytes, after each event; on a GPU, a pool of PyTorch’s own",
    check=check,
    wrong={
        "peaks are forgotten": wrong.ForgetsPeaks,
        "a free end is not used when it grows": wrong.GrowsByAll,
        "what is not there is freed": wrong.FreesAnything,
        "free neighbours are not merged": wrong.NeverMerges,
        "the first fit, not the best": wrong.FirstFit,
        "rounded to 64": wrong.Unrounded,
    },
    demo=demo,
    from_torch=("MemPool, on a GPU",),
    claims=(
        Claim(
            name="expandable-segments",
            text="allocations that can later be expanded to better handle cases where a job changing allocation sizes "
            "frequently, such as having a changing batch size",
            source="PyTorch’s documentation, CUDA semantics, expandable_segments",
            conditions="a changing batch size",
            verdict="partly",
            reason="in the simulator, whose fixed segments are those of a GPU’s own pool: segments that grow leave far less "
            "idle where sizes change, most where they grow, and next to nothing is gained where they do not",
            evidence="simulated",
            experiment=changing,
            devices=("cpu",),
        ),
    ),
)
