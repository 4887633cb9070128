"""One thing that is wrong with a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.cuda.source import Line


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    kind: "race", "uninitialised read", "unfinished copy", "out of bounds", "misaligned access", "divergent barrier",
        "deadlock", "wrong mask" (of a shuffle or a vote), "wrong width", "failed assertion" or "stack overflow".
    lines: of the source, that it is about; the one where it shows comes last. block: that showed it first; threads: of it,
        the one of the last line last; for a race of two blocks, `other_block` is that of the first thread.
    address: in terms of an argument or variable, such as "x[1024]", with what is known of its bounds; "" if there is none.
    cause: a sentence. count: how often it was seen.
    """

    kind: str
    lines: tuple[Line, ...]
    block: tuple[int, int, int] | None
    threads: tuple[tuple[int, int, int], ...]
    address: str
    cause: str
    count: int = 1
    other_block: tuple[int, int, int] | None = None

    def __str__(self) -> str:
        named = [f"line {line}" for line in dict.fromkeys(self.lines) if line] or ["a line that is not known"]
        times = f" ({self.count:,} times)" if self.count > 1 else ""
        return f"{' and '.join(named)}: {self.kind}: {self.cause}{times}"

    @classmethod
    def from_dict(cls, data: dict) -> Finding:
        """From what `dataclasses.asdict` made of one, after JSON."""
        threads = tuple(map(tuple, data["threads"]))
        blocks = {name: tuple(data[name]) if data[name] else None for name in ("block", "other_block")}
        return cls(**{**data, **blocks, "lines": tuple(data["lines"]), "threads": threads})
