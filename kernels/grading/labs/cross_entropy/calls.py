"""What the lab on cross-entropy tries: logits and targets, what is right for them, and what mistakes make of them."""

from __future__ import annotations

from collections.abc import Callable

import torch

from kernels.grading.exercise import Call

IGNORED = -100
WIDEST = 32_768  # elements of a block: half of a multiprocessor's registers, in float32

Values = dict[str, torch.Tensor]


def _targets(random: torch.Generator, M: int, N: int, kind: str) -> torch.Tensor:
    """The last column is row 0's, and the first one row 1's."""
    target = torch.randint(N, (M,), generator=random)
    target[:1], target[1:2] = N - 1, 0
    if kind == "ignored":  # most of them: M is far from the number that counts
        target[torch.arange(M) % 3 > 0] = IGNORED
    if kind == "all ignored":
        target[:] = IGNORED
    if kind == "no class":  # the lower 32 bits of two are those of a class and of an ignored row
        target[:7] = torch.tensor([-1, N, N + 40, IGNORED - 1, 2**32 + 3, 2**32 + IGNORED, IGNORED])
    return target


def _logits(random: torch.Generator, M: int, N: int, kind: str) -> torch.Tensor:
    """The last column weighs as much as many others."""
    x = 3 * torch.randn(M, N, generator=random)
    x[:, -1] += 6
    if kind == "far":
        x += torch.where(torch.arange(M) % 2 == 0, 1e4, -1e6)[:, None]
    if kind == "lowest":  # of such values, one is equal to the largest, or adds nothing
        x = torch.full((M, N), -3.3e38)
        x[:, 1::7] = -3e38
        x[-1] = torch.finfo(torch.float32).min  # in the whole row
    if kind == "infinite":  # row 1's target among them
        x[:, ::3] = -torch.inf
    if kind == "masked":  # more than any block
        x[:, : WIDEST + 100] = -torch.inf
    return x


def _parts(x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The softmax, one at each target, the log-sum-exp, the logit at the target, and which rows have a class."""
    N = x.shape[-1]
    known = (target >= 0) & (target < N)
    safe = torch.where(known, target, 0)
    wanted = (torch.arange(N) == safe[:, None]).to(x.dtype)
    return torch.softmax(x, -1), wanted, x.logsumexp(-1), x.gather(1, safe[:, None])[:, 0], known


def _masked_rows(values: torch.Tensor, target: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """Such as `values`, but 0 in ignored rows, and NaN where a target is no class."""
    shape = (-1,) + (1,) * (values.dim() - 1)
    kept, known = (target != IGNORED).view(shape), known.view(shape)
    zero, nan = values.new_zeros(()), values.new_full((), torch.nan)
    return torch.where(kept, torch.where(known, values, nan), zero)


def _results(x: torch.Tensor, target: torch.Tensor) -> Values:
    p, wanted, _, at, known = _parts(x, target)
    largest = x.amax(-1)
    loss = (x - largest[:, None]).exp().sum(-1).log() - (at - largest)
    dx = (p - wanted) / (target != IGNORED).sum()
    return {"loss": _masked_rows(loss, target, known), "dx": _masked_rows(dx, target, known)}


def call(random: torch.Generator, M: int, N: int, kind: str = "normal", dtype: str = "float32") -> Call:
    x = _logits(random, M, N, kind).to(getattr(torch, dtype))
    target = _targets(random, M, N, kind)
    baseline = _results(x.float(), target)
    return Call(
        {"x": x, "target": target},
        expected=_results(x.double(), target),
        baseline={"loss": baseline["loss"], "dx": baseline["dx"].to(x.dtype)},
    )


def _like(name: str, values: Callable[..., torch.Tensor]) -> Callable[..., Values]:
    """A result by a wrong formula: values(p, wanted, lse, at, rows that count, all rows, classes)."""

    def of(x: torch.Tensor, target: torch.Tensor) -> Values:
        p, wanted, lse, at, known = _parts(x, target)
        wrong = values(p, wanted, lse, at, (target != IGNORED).sum(), *x.shape)
        return {name: _masked_rows(wrong, target, known)}

    return of


LOSS_LIKES = {
    "the log-sum-exp alone: the logit at the target is not taken away": _like("loss", lambda p, w, lse, *_: lse),
    "the log of the probability, without its minus": _like("loss", lambda p, w, lse, at, *_: at - lse),
    "the sum of the exponentials, without its log": _like("loss", lambda p, w, lse, at, *_: lse.exp() - at),
    "the loss divided by the number of rows: only the gradient is that of a mean": _like(
        "loss", lambda p, w, lse, at, count, *_: (lse - at) / count
    ),
}
DX_LIKES = {
    "the softmax over the rows that count: nothing is taken away at the target": _like(
        "dx", lambda p, w, lse, at, count, *_: p / count
    ),
    "a softmax less one in every column": _like("dx", lambda p, w, lse, at, count, *_: (p - 1) / count),
    "the gradient of the sum of all losses, where that of their mean was asked for": _like(
        "dx", lambda p, w, *_: p - w
    ),
    "the gradient with its sign turned": _like("dx", lambda p, w, lse, at, count, *_: (w - p) / count),
    "one taken away at the target, undivided: what is divided is the difference": _like(
        "dx", lambda p, w, lse, at, count, *_: p / count - w
    ),
    "the softmax undivided: what is divided is the difference": _like(
        "dx", lambda p, w, lse, at, count, *_: p - w / count
    ),
    "a division by the number of all rows, the ignored ones among them": _like(
        "dx", lambda p, w, lse, at, count, M, N: (p - w) / M
    ),
    "a division by the number of classes": _like("dx", lambda p, w, lse, at, count, M, N: (p - w) / N),
}
