"""Properties of a kernel that turns q and k where they lie: what it leaves alone, and how often it touches each number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from kernels.grading.exercise import Property, Trial
from kernels.grading.labs.rope.calls import Pairs, halves, neighbours, turned_heads
from kernels.grading.properties.counters import counted
from kernels.grading.properties.differences import described, differing
from kernels.grading.properties.known_mistakes import LIKE
from kernels.hardware import SECTOR_BYTES, WARP
from kernels.lens import Access
from kernels.lens.rendering import VERBS, in_words

_SAME = 1 / 64  # of a length: far more than rounding to bfloat16, far less than another formula
_FEW = 1 / 64  # of the pairs: so many wrong values may happen to be the old ones, in bfloat16
_STILL = 1 / 8  # of a length: what is moved by less may be rounded to what it was


def _heads(trial: Trial, x: torch.Tensor) -> torch.Tensor:
    return turned_heads(x, *(trial.sizes[of] for of in "HKD"))


def _near(trials: Sequence[Trial]) -> list[Trial]:
    """Those whose positions are not far apart, which are for a property of their own."""
    return [one for one in trials if one.outputs and one.case != "apart"]


def others_left(output: str, hint: str) -> Property:
    """v, and what lies between two positions, are to the bit what they were."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in _near(trials):
            H, K, D = (trial.sizes[of] for of in "HKD")
            changed = differing(trial.outputs[output], trial.call.args[output])
            changed[..., : (H + K) * D] = False
            if not changed.any():
                continue
            lines = sorted({one.line for one in trial.accesses if one.kind != "load" and output in one.names}, key=str)
            is_v = changed[..., (H + K) * D : (H + 2 * K) * D]
            what = f"v, heads {H + K} to {H + 2 * K - 1}" if is_v.any() else "between two positions"
            by = f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}: " if lines else ""
            found = described(output, changed, "is", "are")
            return f"{by}{found} not what was given, and not yours: they are {what}\n(with {trial.where})"
        return None

    return Property("v and everything beyond stay as they are", broken, "writes", hint)


def all_turned(output: str, pairs: Pairs, hint: str | Mapping[str, str]) -> Property:
    """No pair of q and k is still what it was, but for those that a small angle hardly moves."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in _near(trials):
            given, wanted = _heads(trial, trial.call.args[output]), _heads(trial, trial.call.expected[output])
            same = given == _heads(trial, trial.outputs[output])
            (a, b), moved = pairs(same), torch.hypot(*pairs(wanted - given.double()))
            still = a & b & (moved > _STILL * torch.hypot(*pairs(wanted)))
            if still.sum() <= _FEW * still.numel():
                continue
            heads, H = sorted(set(still.nonzero()[:, 2].tolist())), trial.sizes["H"]
            of = "k" if heads[0] >= H else "q" if heads[-1] < H else "q and k"
            batch, s, head, pair = still.nonzero()[0].tolist()
            if same.all():
                return f"nothing was written to {output}\n(with {trial.where})"
            return (
                f"{int(still.sum()):,} of {still.numel():,} pairs are as they were, all of them in {of}; the first is pair "
                f"{pair} of head {head} at position {s}{f' of batch {batch}' if batch else ''}\n(with {trial.where})"
            )
        return None

    return Property("every pair of q and k is turned", broken, "writes", hint)


def lengths_kept(output: str, pairs: Pairs, hint: str | Mapping[str, str]) -> Property:
    """The two features of a pair have the length that they had, if that is finite."""

    def lengths(trial: Trial, pairs: Pairs) -> list[torch.Tensor]:
        both = trial.call.args[output], trial.outputs[output]
        return [torch.hypot(*pairs(_heads(trial, of.double()))) for of in both]

    def changed(trial: Trial, pairs: Pairs) -> torch.Tensor:
        was, now = lengths(trial, pairs)
        return ~((now - was).abs() <= _SAME * was) & was.isfinite()

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in _near(trials):
            if not (wrong := changed(trial, pairs)).any():
                continue
            at = b, s, head, pair = tuple(wrong.nonzero()[0].tolist())
            was, now = (of[at] for of in lengths(trial, pairs))
            message = (
                f"{int(wrong.sum()):,} of {wrong.numel():,} pairs changed length, so this was not a rotation\n"
                f"pair {pair} of head {head} at position {s}{f' of batch {b}' if b else ''}: "
                f"its length was {was:.6g}, and is {now:.6g}\n(with {trial.where})"
            )
            if changed(trial, neighbours if pairs is halves else halves).any():
                return message
            other = "neighbours in place of halves" if pairs is halves else "halves in place of neighbours"
            return f"{message}\n{LIKE}other pairs: {other}."
        return None

    return Property("every pair keeps its length", broken, "right", hint)


def once(output: str, kind: str, name: str, hint: str | Mapping[str, str]) -> Property:
    """As many bytes of q and k are loaded, or stored, as they have."""

    def broken(trial: Trial) -> str | None:
        found = _of(trial, kind, output)
        size = trial.call.args[output].element_size()
        fewest = _heads(trial, trial.call.args[output]).numel() * size
        if (asked := sum(one.bytes for one in found)) <= fewest:
            return None
        lines = ", ".join(str(one.line) for one in found)
        verb = "loaded" if kind == "load" else "stored"
        H, K = trial.sizes["H"], trial.sizes["K"]
        why = f"one thread owns a pair, and {VERBS[kind]} each of its numbers once"
        if asked * (H + K) == fewest * (H + 2 * K):
            why = f"so many have q, k and v, {H + 2 * K} heads, and v is not yours"
        return (
            f"{asked // size:,} numbers of {output} are {verb} by line{'s' * (len(found) > 1)} {lines}, and q and k have "
            f"{fewest // size:,}: {why}"
        )

    return counted(name, (), broken, hint)


def few_sectors(output: str, kind: str, name: str, hint: str) -> Property:
    """Sectors of q and k are the fewest in the case whose heads fill theirs; in others, one more for each half and warp."""

    def broken(trial: Trial) -> str | None:
        found, (B, S, H, K, D) = _of(trial, kind, output), (trial.sizes[of] for of in "BSHKD")
        size = trial.call.args[output].element_size()
        heads = B * S * (H + K)
        fewest = heads * D * size // SECTOR_BYTES
        if trial.case != "even":
            fewest = heads * (2 * -(-D // 2 * size // SECTOR_BYTES) + 2 * -(-D // 2 // WARP))
        if (moved := sum(one.sectors for one in found)) <= fewest:
            return None
        worst = max(found, key=lambda one: one.sectors - one.fewest_sectors)
        return f"{in_words(worst, output)}\n{moved:,} sectors in all, where {fewest:,} would do"

    return counted(name, ("even", "odd", "wide"), broken, hint)


def angles_once(hint: str) -> Property:
    """The sectors of the angles are those of one reading for each batch."""

    def broken(trial: Trial) -> str | None:
        B, S, D = (trial.sizes[of] for of in "BSD")
        fewest = B * S * D // 2 * 4 // SECTOR_BYTES
        if trial.case != "even":
            fewest = B * S * (-(-D // 2 * 4 // SECTOR_BYTES) + -(-D // 2 // WARP))
        for table in ("cos", "sin"):
            found = _of(trial, "load", table)
            if (moved := sum(one.sectors for one in found)) > fewest:
                worst = max(found, key=lambda one: one.sectors)
                return (
                    f"line {worst.line} reads {table}: {moved:,} sectors in all, where {fewest:,} would do; all heads of a "
                    "position turn by the same angles, so a thread that turns its pair in all of them asks once"
                )
        return None

    return counted("the angles are read once for all heads", ("even", "odd", "wide"), broken, hint)


def lanes_together(each: int, hint: str) -> Property:
    """In the case whose heads fill warps, at most twice the requests that full warps need. each: those of a head."""

    def broken(trial: Trial) -> str | None:
        B, S, H, K, D = (trial.sizes[of] for of in "BSHKD")
        requests = sum(one.requests for one in trial.accesses if one.space == "global")
        fewest = B * S * -(-D // 2 // WARP) * (each * (H + K) + 2)
        if requests <= 2 * fewest:
            return None
        worst = min((one for one in trial.accesses if one.space == "global"), key=lambda one: one.lanes_per_request)
        return (
            f"{requests:,} requests, where {fewest:,} would do; in line {worst.line} {worst.lanes_per_request:.3g} lanes of "
            "a warp work at a time"
        )

    return counted("the lanes of a warp work together", ("even",), broken, hint)


def _of(trial: Trial, kind: str, array: str) -> list[Access]:
    return [one for one in trial.accesses if one.kind in (kind, "atomic") and array in one.names]
