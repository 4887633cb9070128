"""Where two tensors differ, in words."""

from __future__ import annotations

import torch

_SHOWN = 3


def differing(got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The elements that are not equal; NaN is equal to NaN."""
    return (got != expected) & ~(got.isnan() & expected.isnan())


def mismatch(name: str, got: torch.Tensor, expected: torch.Tensor, wrong: torch.Tensor) -> str:
    """How many elements are wrong, where, and the first of them."""
    lines = [described(name, wrong, "is", "are") + " wrong"]
    if not wrong.all() and torch.equal(got.flatten().sort().values, expected.to(got.dtype).flatten().sort().values):
        lines[0] += ": the right values, in the wrong places"
    for at in wrong.nonzero()[:_SHOWN].tolist():
        both = got[tuple(at)], expected[tuple(at)]
        shown = next(of for digits in (6, 9, 17) if len(set(of := [_number(one, digits) for one in both])) > 1)
        lines.append(f"{name}[{', '.join(map(str, at))}]: got {shown[0]}, expected {shown[1]}")
    return "\n".join(lines)


def described(name: str, chosen: torch.Tensor, one: str, many: str) -> str:
    """Such as "12 of 60 elements of y, all in y[:, 32:37], are": the chosen, and the smallest slice around them, if it is
    not the whole."""
    count, of = int(chosen.sum()), chosen.numel()
    every = "every element" if count == of else f"{count:,} of {of:,} elements"
    around = _slice(chosen)
    where = f", all in {name}[{around}]," if around.strip(":, ") else ""
    return f"{every} of {name}{where} {many if count > 1 and count < of else one}"


def _slice(chosen: torch.Tensor) -> str:
    found = chosen.nonzero()
    parts = []
    for size, first, last in zip(chosen.shape, found.amin(0).tolist(), found.amax(0).tolist(), strict=True):
        if first == last and size > 1:
            parts.append(f"{first}")
        else:
            parts.append(f"{first or ''}:{last + 1 if last + 1 < size else ''}")
    return ", ".join(parts)


def _number(value: torch.Tensor, digits: int) -> str:
    exact = not value.is_floating_point() and not value.is_complex()
    return str(int(value)) if exact else f"{value.item():.{digits}g}"
