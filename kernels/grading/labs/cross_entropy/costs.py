"""What the lab on cross-entropy counts, each the message of a trial that costs too much, or None."""

from __future__ import annotations

from kernels.grading.exercise import Trial
from kernels.grading.labs.cross_entropy.calls import IGNORED, WIDEST
from kernels.hardware import SECTOR_BYTES

_COUNTING = 5  # times the bytes of the targets: they are read, and converted or subtracted, and added up
# Operators whose results the host needs at once.
_WAITING = ("_local_scalar_dense", "index", "masked_select", "nonzero", "equal", "bincount")


def one_kernel(trial: Trial) -> str | None:
    kernels = [trace.kernel for trace in trial.traces]
    return None if len(kernels) == 1 else f"{len(kernels)} launches of kernels, where 1 would do: {', '.join(kernels)}"


def little_else(trial: Trial) -> str | None:
    operators, targets = trial.facts["operators"], trial.call.args["target"].nbytes
    if (moved := sum(one.read + one.written for one in operators)) <= _COUNTING * targets:
        return None
    names = ", ".join(dict.fromkeys(one.name for one in operators))
    return (
        f"beside your kernel, PyTorch moves {moved:,} bytes ({names}), and all targets together have {targets:,}; all that "
        "is left for it is to count them"
    )


def narrow_count(trial: Trial) -> str | None:
    """One number of a few bits, by an operator that adds or converts. Of fewer rows than that, the values are right."""
    few = (one for one in trial.facts["operators"] if one.name in ("sum", "_to_copy") and one.written <= 2)
    if (found := next(few, None)) is None:
        return None
    bits = 8 * found.written
    said = "its sum" if found.name == "sum" else "what it is converted to"
    return (
        f"PyTorch's count of rows: {said} has {bits} bits, which hold no number beyond {2**bits - 1:,}, and x may have more "
        "rows"
    )


def never_waits(trial: Trial) -> str | None:
    found = [one.name for one in trial.facts["operators"] if one.name in _WAITING]
    if not found:
        return None
    return (
        f"the function calls {found[0]}, whose result the host needs at once, a number or a shape: it waits until the GPU has "
        "done all that came before"
    )


def reads(trial: Trial) -> str | None:
    """Bytes and sectors of the rows that count, twice; and of each row a few single logits."""
    x, N = trial.call.args["x"], trial.sizes["N"]
    rows = int((trial.call.args["target"] != IGNORED).sum())
    loads = [one for one in trial.accesses if one.kind == "load" and "x" in one.names]
    asked, most = sum(one.bytes for one in loads), rows * (2 * N + 3) * x.element_size()
    lines = ", ".join(str(line) for line in sorted({one.line for one in loads}))
    if asked > most:
        return (
            f"x is read by line {lines}: {asked:,} bytes in all, where {most:,} would do for {rows} rows of {N:,} logits, "
            "each read twice"
        )
    moved = SECTOR_BYTES * sum(one.sectors for one in loads)
    granted = 2 * SECTOR_BYTES * sum(one.requests for one in loads)  # where rows and blocks begin anywhere
    if moved > most + granted:
        return f"x is read by line {lines}: sectors of {moved:,} bytes in all, for {asked:,}; a block takes neighbours of a row"
    return None


def ignored_is_read(trial: Trial) -> str | None:
    rows = int((trial.call.args["target"] != IGNORED).sum())
    loads = [one for one in trial.accesses if one.kind == "load" and "x" in one.names]
    if (asked := sum(one.lanes for one in loads)) <= rows * (2 * trial.sizes["N"] + 3):
        return None
    worst = max(loads, key=lambda one: one.lanes)
    return (
        f"line {worst.line} reads x in rows whose target is {IGNORED}: {asked:,} logits are read, and {rows} of "
        f"{trial.sizes['M']} rows count, with {rows * trial.sizes['N']:,} logits in all"
    )


def wide_block(trial: Trial) -> str | None:
    for one in trial.accesses:
        if "x" in one.names and (lanes := (one.lanes + (one.masked or 0)) // one.requests) > WIDEST:
            return f"line {one.line} takes a block of {lanes:,} logits, where {WIDEST:,} are the most"
    return None
