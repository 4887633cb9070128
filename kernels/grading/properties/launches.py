"""Properties about what a submission launches: Triton kernels, and PyTorch's operators beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kernels.grading import properties
from kernels.grading.exercise import Property, Trial
from kernels.grading.properties.counters import counted
from kernels.hardware import SECTOR_BYTES


def written(*cases: str, name: str, hint: str = "") -> Property:
    """Every element of every output was written, in some cases: those in which a NaN beside numbers has no other cause."""
    every = properties.written(name, hint)
    return replace(every, broken=lambda trials: every.broken([_unstored(one) for one in trials if one.case in cases]))


def _unstored(trial: Trial) -> Trial:
    """Without the outputs that are nothing but NaN although as many elements are stored as there are: they were computed."""
    stored = {
        name: sum(one.lanes for one in trial.accesses if one.kind == "store" and name in one.names)
        for name in trial.outputs
    }
    kept = {name: one for name, one in trial.outputs.items() if stored[name] < one.numel() or not one.isnan().all()}
    return replace(trial, outputs=kept)


def one_launch(hint: str = "") -> Property:
    """One kernel does it all, and PyTorch does no more than allocate."""

    def broken(trial: Trial) -> str | None:
        kernels = [trace.kernel for trace in trial.traces]
        operators = [one.name for one in trial.facts["operators"]]
        launched = len(kernels) + len(operators)
        if launched == 1 and kernels:
            return None
        by = [f"{', '.join(kernels)} of yours"] * bool(kernels) + [f"{', '.join(operators)} of PyTorch"] * bool(
            operators
        )
        return f"{launched} launches, where 1 would do: {' and '.join(by)}"

    return counted("it is one launch", (), broken, hint)


def no_atomics(name: str, hint: str = "") -> Property:
    """No program adds to what others add to."""

    def broken(trial: Trial) -> str | None:
        found = [one for one in trial.accesses if one.kind == "atomic"]
        return f"line {found[0].line} updates {', '.join(found[0].names)} by atomic operations" if found else None

    return counted(name, (), broken, hint)


def read_once(*tensors: str, cases: Sequence[str], name: str, advice: str, hint: str = "") -> Property:
    """The bytes of these arguments are loaded once, in the fewest sectors.

    In the cases, each row is whole sectors. In others, where rows begin anywhere, there may be some more.
    """
    return _once("load", tensors, cases, name, advice, hint)


def written_once(*tensors: str, cases: Sequence[str], name: str, advice: str, hint: str = "") -> Property:
    """The bytes of these outputs are stored once, in the fewest sectors, for which see `read_once`."""
    return _once("store", tensors, cases, name, advice, hint)


def partial_sums_once(*cases: str, name: str, hint: str = "") -> Property:
    """Of every array but dx, a program stores no more than one row of N elements."""

    def broken(trial: Trial) -> str | None:
        for trace in trial.traces:
            most = trace.blocks * trial.sizes["N"]
            for one in trace.accesses:
                if one.kind == "store" and "dx" not in one.names and one.lanes > most:
                    return (
                        f"line {one.line} stores {one.lanes:,} sums to {', '.join(one.names)}, where a row for each of "
                        f"{trace.blocks} programs would do, {most:,} in all"
                    )
        return None

    return counted(name, cases, broken, hint)


def sums_in_float32(*cases: str, name: str, hint: str = "") -> Property:
    """In these cases of 16-bit tensors: what is neither an argument nor a result is float32, until it is added up."""

    def broken(trial: Trial) -> str | None:
        for one in trial.accesses:
            own = not {*trial.call.args, *trial.call.expected} & set(one.names)
            if one.kind == "store" and own and one.bytes < 4 * one.lanes:
                return f"line {one.line} stores sums to {', '.join(one.names)} in {one.bytes // one.lanes} bytes each"
        early = [
            one for one in trial.facts["operators"] if one.name == "_to_copy" and one.read > 2 * 4 * trial.sizes["N"]
        ]
        if early:
            return f"{early[0].read:,} bytes are converted, more than the sums of both gradients: add up first"
        return None

    return counted(name, cases, broken, hint)


def few_other_operators(*cases: str, name: str, hint: str = "") -> Property:
    """PyTorch's operators move fewer bytes than x has."""

    def broken(trial: Trial) -> str | None:
        operators, whole = trial.facts["operators"], trial.call.args["x"].nbytes
        moved = sum(one.read + one.written for one in operators)
        if moved < whole:
            return None
        names = ", ".join(one.name for one in operators)
        return (
            f"beside your kernel, PyTorch moves {moved:,} bytes ({names}), and x has {whole:,}; only the "
            "partial sums of a few programs are left for it to add up"
        )

    return counted(name, cases, broken, hint)


def _once(kind: str, tensors: Sequence[str], cases: Sequence[str], name: str, advice: str, hint: str) -> Property:
    verb = {"load": "reads", "store": "writes"}[kind]

    def broken(trial: Trial) -> str | None:
        for tensor in tensors:
            here = [one for one in trial.accesses if one.kind == kind and tensor in one.names]
            whole = (trial.call.args.get(tensor) if kind == "load" else trial.outputs[tensor]).nbytes
            if not trial.traces:
                return "no kernel was launched: launch it for every size and type"
            if not here:
                return f"no line of a kernel {verb} {tensor}"
            lines = ", ".join(str(line) for line in sorted({one.line for one in here}))
            who = f"line {lines} {verb}" if "," not in lines else f"lines {lines} {verb.rstrip('s')}"
            if (asked := sum(one.bytes for one in here)) > whole:
                return f"{who} {tensor}: {asked:,} bytes in all, where {whole:,} would do; {advice}"
            most = whole if trial.case in cases else 2 * whole + SECTOR_BYTES * sum(one.requests for one in here)
            if (moved := SECTOR_BYTES * sum(one.sectors for one in here)) > most:
                return (
                    f"{who} {tensor}: sectors of {moved:,} bytes in all, for {whole:,}; "
                    "the lanes of a program should touch neighbouring elements of a row"
                )
        return None

    return counted(name, (), broken, hint)
