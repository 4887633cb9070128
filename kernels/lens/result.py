"""What a traced launch asked of the memory system, line by line."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Group

from kernels.cuda.source import Line
from kernels.figures import Picture
from kernels.hardware import SECTOR_BYTES
from kernels.lens.finding import Finding
from kernels.lens.pictures import figure
from kernels.lens.rendering import as_html, as_rich
from kernels.lens.request import Request

TOTALS = (
    "global_load_requests",
    "global_load_sectors",
    "global_store_requests",
    "global_store_sectors",
    "global_atomic_requests",
    "global_atomic_sectors",
    "shared_load_wavefronts",
    "shared_store_wavefronts",
    "shared_atomic_requests",
    "barriers",
    "launches",
    "bytes_requested",
    "bytes_moved",
)
TRITON_TOTALS = (
    "global_load_sectors",
    "global_store_sectors",
    "global_atomic_sectors",
    "lanes_masked",
    "launches",
    "bytes_requested",
    "bytes_moved",
)


@dataclass(frozen=True)
class Access:
    """The accesses of a line to the same arrays in the same way, added up over all warps, or over all Triton programs.

    line: of the source; of a file that it includes, as in "vectors.cuh:45"; 0 if it is not known.
    kind: "load", "store" or "atomic". space: "global", "shared" or "constant".
    width: bytes of a lane. names: the parameters or variables that it touched.
    instructions: of the instrumented code, that were added up: more than one where a line names the same array again, or
    where the compiler repeated the line.
    requests: memory instructions of a warp with at least one active lane. lanes: active lanes of all requests.
    bytes: that the lanes asked for. sectors: pieces of 32 bytes that global memory had to move (for an atomic, again for
    every lane that names the same word), and the fewest that hold the distinct bytes asked for. wavefronts: passes of
    shared memory over its 32 banks, and the fewest.
    samples: the first few requests of the first warps, lane by lane, of which `Trace.figure` draws pictures.

    Of a Triton kernel, a request is an access of a whole program, such as one `tl.load`, and a lane is an element of its
    block. Which warp asks for which lanes is for Triton's compiler to choose, so sectors are those of the whole access:
    the fewest that any choice can move, also for an atomic.
    masked: lanes that a mask switched off; None in CUDA C, where a lane that is not active does not say why.
    """

    line: Line
    kind: str
    space: str
    width: int
    names: tuple[str, ...]
    instructions: int
    requests: int
    lanes: int
    bytes: int
    sectors: int
    fewest_sectors: int
    wavefronts: int
    fewest_wavefronts: int
    samples: tuple[Request, ...] = field(default=(), repr=False)
    masked: int | None = None

    @property
    def lanes_per_request(self) -> float:
        return self.lanes / self.requests

    @property
    def units(self) -> int:
        """Sectors of global memory, wavefronts of shared memory."""
        return self.wavefronts if self.space == "shared" else self.sectors

    @property
    def fewest(self) -> int:
        return self.fewest_wavefronts if self.space == "shared" else self.fewest_sectors

    @property
    def waste(self) -> float:
        """How many times the fewest sectors or wavefronts were needed; 1.0 is the best. Constant memory: 1.0."""
        return self.units / self.fewest if self.fewest else 1.0

    @classmethod
    def from_dict(cls, data: dict) -> Access:
        """From what `dataclasses.asdict` made of one, after JSON."""
        samples = tuple(map(Request.from_dict, data["samples"]))
        return cls(**data | {"names": tuple(data["names"]), "samples": samples})


@dataclass(frozen=True)
class Trace:
    """A traced launch. Shows itself as the annotated source, in a notebook and in a terminal.

    kernel, grid, block, shared_mem: the launch. source: of the file; filename: its name; headers: those of our own that
        it includes, by name, with their sources.
    accesses: by line. barriers: `__syncthreads` and its kin, each counted once a block.
    simt_efficiency: an estimate of the lanes that were active, of the 32 of a warp: the mean over all steps of the warps'
        replay, where a step is a basic block or an access. Nsight Compute weighs every machine instruction alike.
    blocks_run, blocks: how many of the grid's blocks were traced. Where not all were, `scaled` is true, and totals and
        `accesses` are scaled up to the grid.
    findings: what is wrong with the kernel. error: why the launch stopped before its end, if it did.
    constants: of a Triton launch, its constexprs and compiler's options by name; None in CUDA C. What Triton's compiler
        decides is not known: shared_mem, barriers and simt_efficiency are then None. block: num_warps of 32 threads.
    busiest: of each array, the requests of the warp, or Triton program, that made the most.
    shuffles: of CUDA C; each counted once a warp.
    notes: sentences on what is not wrong by itself, such as a first NaN.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_mem: int | None
    source: str
    filename: str
    accesses: tuple[Access, ...]
    barriers: int | None
    simt_efficiency: float | None
    blocks_run: int
    blocks: int
    findings: tuple[Finding, ...] = ()
    error: str | None = None
    constants: dict[str, Any] | None = None
    busiest: dict[str, int] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    shuffles: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def scaled(self) -> bool:
        return self.blocks_run < self.blocks

    @property
    def totals(self) -> dict[str, int]:
        """The counters of the whole launch, by the names that `TOTALS` lists.

        Of a Triton launch, by those that `TRITON_TOTALS` lists: what its compiler decides is left out. Its sectors, and so
        `bytes_moved`, are of whole accesses (see `Access`).
        """

        def add(space: str, kind: str, what: str) -> int:
            return sum(getattr(one, what) for one in self.accesses if (one.space, one.kind) == (space, kind))

        totals = {}
        for name in TOTALS[:-4]:
            space, kind, what = name.split("_")
            totals[name] = add(space, kind, what)
        moved = SECTOR_BYTES * sum(totals[f"global_{kind}_sectors"] for kind in ("load", "store", "atomic"))
        asked = sum(one.bytes for one in self.accesses if one.space == "global")
        totals |= {"barriers": self.barriers, "launches": 1, "bytes_requested": asked, "bytes_moved": moved}
        if self.constants is None:
            return totals
        totals["lanes_masked"] = sum(one.masked for one in self.accesses)
        return {name: totals[name] for name in TRITON_TOTALS}

    def line(self, line: Line) -> tuple[Access, ...]:
        """The accesses of a line of the source, or of one of a header: "vectors.cuh:45"."""
        return tuple(one for one in self.accesses if one.line == line)

    def figure(
        self, array: str | None = None, *, line: Line | None = None, kind: str | None = None, request: int = 0
    ) -> Picture:
        """A picture of one access, request by request: `kernels.lens.figure` of this trace."""
        return figure(self, array, line=line, kind=kind, request=request)

    def __repr__(self) -> str:
        """One line, which a notebook stores beside the annotated source: all fields would be pages."""
        found = f"{len(self.findings)} finding{'s' * (len(self.findings) != 1)}"
        return f"<Trace of {self.kernel}: grid {self.grid}, block {self.block}, {found}>"

    def __rich__(self) -> Group:
        return as_rich(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Trace:
        data = json.loads(text)
        data["accesses"] = tuple(map(Access.from_dict, data["accesses"]))
        data["findings"] = tuple(map(Finding.from_dict, data["findings"]))
        data |= {name: tuple(data[name]) for name in ("grid", "block", "notes")}
        return cls(**data)


@dataclass(frozen=True)
class Launches:
    """The traced launches of a call, in order. Shows itself as they do, one after another."""

    traces: tuple[Trace, ...]

    @property
    def totals(self) -> dict[str, int]:
        """The counters of all launches together: those that are known of each."""
        each = [trace.totals for trace in self.traces]
        return {name: sum(totals[name] for totals in each) for name in each[0] if all(name in one for one in each)}

    def __rich__(self) -> Group:
        return Group(*self.traces)

    def _repr_html_(self) -> str:
        return "".join(map(as_html, self.traces))
