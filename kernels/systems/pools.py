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


def marked(events: Sequence[Event]) -> list[tuple[int, int]]:
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
            units, runs = -(-size // UNIT), []
            small = units * UNIT <= SMALL
            for number, (kind, marks) in enumerate(segments):
                start = marks.find(0) if kind == small else -1
                while start >= 0:
                    end = marks.find(1, start)
                    end = len(marks) if end < 0 else end
                    runs += [(end - start, number, start)] if end - start >= units else []
                    start = marks.find(0, end)
            if not runs:
                size = units * UNIT
                whole = SMALL_SEGMENT if small else MIDDLE_SEGMENT if size < MIDDLE else -(-size // ROUND) * ROUND
                segments.append((small, bytearray(whole // UNIT)))
                reserved += whole
                runs = [(whole // UNIT, len(segments) - 1, 0)]
            length, number, start = min(runs)
            splits = length > units if small else (length - units) * UNIT > SMALL
            end = start + (units if splits else length)
            segments[number][1][start:end] = b"\1" * (end - start)
            held[tensor] = number, start, end
            allocated += UNIT * (end - start)
        found.append((reserved, allocated))
    return found


def check(make: type[Pool], device: str) -> tuple[float, str | None]:
    """Reserved and allocated bytes after every event of five traces; growing segments never reserve more than a page too much;
    and on a GPU, what its own pool reserves for the same trace."""
    for seed in range(5):
        pool, events = make(), trace(seed)
        for number, (event, expected) in enumerate(zip(events, marked(events), strict=True)):
            pool.replay([event])
            if (pool.reserved, pool.allocated) != expected:
                got = f"{pool.reserved:,} reserved and {pool.allocated:,} allocated"
                return math.inf, f"trace {seed}, event {number}: {got}, expected {expected[0]:,} and {expected[1]:,}"
        grown = make(expandable=True).replay(events)
        least = max(grown.peak_allocated, 1)
        if grown.allocated != sum(-(-size // UNIT) * UNIT for size in living(events)) or grown.peak_reserved < least:
            return math.inf, f"trace {seed}: segments that grow lose count of what is allocated"
        if seed == 0 and device == "cuda" and (reserved := on_gpu(events)) != pool.reserved:
            return math.inf, f"a GPU's pool reserves {reserved:,} bytes, and the simulator {pool.reserved:,}"
    ladder = [Event(n, 11 << 20) for n in range(8)] + [Event(n, None) for n in range(8)] + [Event(9, 80 << 20)]
    if make(expandable=True).replay(ladder).reserved >= make().replay(ladder).reserved:
        return math.inf, "what was freed in a segment that grows is not joined for one larger allocation"
    return 0.0, None


def living(events: Sequence[Event]) -> list[int]:
    freed = {event.tensor for event in events if event.bytes is None}
    return [event.bytes for event in events if event.bytes is not None and event.tensor not in freed]


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


class NeverMerges(Pool):
    def _merge(self, block, blocks):
        return block


class FirstFit(Pool):
    """Takes the first free block that has room."""

    def allocate(self, tensor, size):
        for blocks in self.blocks.values():
            blocks.sort(key=lambda block: (block.segment, block.start))
        size_up = -(-size // UNIT) * UNIT
        first = next((b for b in self.blocks[size_up <= SMALL] if b.free and b.size >= size_up), None)
        hidden = [b for b in self.blocks[size_up <= SMALL] if b.free and b is not first]
        for block in hidden:
            block.free = False
        super().allocate(tensor, size)
        for block in hidden:
            block.free = True


class Unrounded(Pool):
    """Rounds to 64 bytes."""

    def allocate(self, tensor, size):
        super().allocate(tensor, size)
        self.allocated -= (-(-size // UNIT) * UNIT) - (-(-size // 64) * 64)


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
        "free neighbours are not merged": NeverMerges,
        "the first fit, not the best": FirstFit,
        "rounded to 64": Unrounded,
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
