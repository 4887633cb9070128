"""The third exercise: the fewest rows at which a matrix product is limited by arithmetic, in whole numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from kernels.grading import properties
from kernels.grading.exercise import Call, Property, Trial
from kernels.grading.labs.roofline.calls import at_once, call, exercise, uniform
from kernels.grading.properties import known_mistakes
from kernels.grading.properties.differences import described
from kernels.grading.python import devices

_WIDE = {"first": {"n": 6}, "other": {"n": 9}, "again": {"n": 6}, "alone": {"n": 1}, "many": {"n": 300}}
_MILLIONS = {"millions": {"n": 2, "millions": True}}
_NARROW = {"narrow": {"n": 12, "narrow": True}}
_EXACT = {"exact": {"n": 18, "exact": True}, "exact, too": {"n": 18, "exact": True}}
_ABOVE = {"above": {"n": 2, "above": True}, "above, too": {"n": 2, "above": True}}


def _whole(random: torch.Generator, low: int, high: int) -> int:
    return int(torch.randint(low, high, (), generator=random))


def _batches(random: torch.Generator, n: int, narrow: bool = False, **kind: bool) -> Call:
    """narrow: of most products, no number of rows suffices. kind: exact, above or millions: see there."""
    if kind:
        return {"exact": _exact, "above": _above, "millions": _millions}[next(iter(kind))](random)
    bandwidth, ridge = _whole(random, 30, 5_000), 3 * _whole(random, 4, 66)
    # The ridge point is no whole number, so that it is rounded; of narrow ones it is, and some of them lie on the edge.
    peak = bandwidth * ridge + (0 if narrow else bandwidth // 3)
    itemsize = 2.0 ** torch.randint(3, (n,), generator=random).double()
    edge = peak * itemsize / bandwidth  # no number of rows suffices where the harmonic mean of K and N is at most this
    low, high = (0.1, 2.5) if narrow else (1.02, 19)
    K, N = ((edge * uniform(random, n, low, high)).ceil() for _ in "KN")
    if narrow:
        K[0], N[0] = edge[0], edge[0]
        K[1], N[1] = 2 * edge[1] / 3, 2 * edge[1]
        K[2:4] = (edge[2:4] / 4).ceil()
    return _call(K, N, itemsize, peak, bandwidth)


def _exact(random: torch.Generator) -> Call:
    """A machine on which arithmetic takes exactly as long as memory for a product of certain sizes: so it does where they
    change places, and where they grow with the bytes of an element."""
    sizes = [_whole(random, 20, 400) for _ in "MKN"]
    operations = 2 * math.prod(sizes)
    moved = sum(map(math.prod, itertools.combinations(sizes, 2)))
    common = math.gcd(operations, moved)
    every = [(of, itemsize) for itemsize in (1, 2, 4) for of in itertools.permutations(sizes)]
    K, N, itemsize = (
        torch.tensor(one).double() for one in zip(*((K * s, N * s, s) for (_, K, N), s in every), strict=True)
    )
    return _call(K, N, itemsize, operations // common, moved // common)


def _above(random: torch.Generator) -> Call:
    """A machine and a product whose quotient is above a whole number M by less than a millionth of a millionth, and by more
    than float64 rounds: what is divided is M times the divisor, and 1."""
    while True:
        M = 2 * _whole(random, 1, 5)
        K, N = (2 * _whole(random, 750, 1_500) + 1 for _ in "KN")
        spared = K * N + M * (K + N)
        if math.gcd(spared, 2 * M * K * N) > 1:
            continue
        peak = pow(spared, -1, 2 * M * K * N)
        if 1 << 42 < peak * K * N // M < 1 << 47:
            k, n = torch.tensor([[K, N], [N, K]]).double()
            return _call(k, n, torch.ones_like(k), peak, (peak * spared - 1) // (2 * M * K * N))


def _millions(random: torch.Generator) -> Call:
    """A machine and a product that hardly gains by a row, and yet 2·M·K·N·bandwidth is below 2⁵³; and one that gains more."""
    size, bandwidth = 2 * _whole(random, 75, 100) + 1, 2 * _whole(random, 500, 1_000)
    k = torch.tensor([size, 2 * size]).double()
    return _call(k, k, torch.ones_like(k), size * bandwidth - 1, bandwidth)


def _call(K: Tensor, N: Tensor, itemsize: Tensor, peak: int, bandwidth: int) -> Call:
    k, n, s = K.long(), N.long(), itemsize.long()
    spare = 2 * k * n * bandwidth - peak * s * (k + n)
    rows = -(-peak * s * k * n // spare.clamp(min=1))
    args = {"K": K, "N": N, "itemsize": itemsize, "peak": peak, "bandwidth": bandwidth}
    return call(args, M=rows.double().where(spare > 0, torch.inf))


def _rows(
    K: Tensor,
    N: Tensor,
    itemsize: Tensor,
    peak: int,
    bandwidth: int,
    *,
    each: int = 2,
    x: int = 1,
    weights: int = 1,
    y: int = 1,
) -> Tensor:
    """Not rounded. each: operations for a pair of numbers. x, weights, y: how often each matrix is moved."""
    spare = each * K * N * bandwidth - peak * itemsize * (x * K + y * N)
    return (peak * itemsize * weights * K * N / spare).where(spare > 0, torch.inf)


_LIKES: Mapping[str, Callable[..., known_mistakes.Values]] = {
    "a row too few: of a number between two, the lower one is not enough": lambda **of: {"M": _rows(**of).floor()},
    "a row too many: the next number is right for what is no whole number yet": lambda **of: {
        "M": _rows(**of).floor() + 2
    },
    "the nearest whole number: the one below is not enough": lambda **of: {"M": _rows(**of).round()},
    "a number between two whole ones": lambda **of: {"M": _rows(**of)},
    "one operation for each pair of numbers, where there are a multiplication and an addition; or every byte twice": (
        lambda **of: {"M": _rows(**of, each=1).ceil()}
    ),
    "a product whose result is not written": lambda **of: {"M": _rows(**of, y=0).ceil()},
    "a product whose rows are not read": lambda **of: {"M": _rows(**of, x=0).ceil()},
    "the bytes of the K×N matrix alone": lambda **of: {"M": _rows(**of, x=0, y=0).ceil()},
    "a result that is read and written: it is only written": lambda **of: {"M": _rows(**of, y=2).ceil()},
    "elements of one byte": lambda **of: {"M": _rows(**of | {"itemsize": 1}).ceil()},
    "peak for bandwidth, and bandwidth for peak": lambda peak, bandwidth, **of: {
        "M": _rows(**of, peak=bandwidth, bandwidth=peak).ceil()
    },
}


def _infinite() -> Property:
    """Infinity where it is expected, and only there."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in trials:
            got, expected = trial.outputs["M"], trial.call.expected["M"]
            if got.shape != expected.shape:
                continue  # `right` says so
            for wrong, what in (
                (got.isnan(), "NaN"),
                (expected.isinf() & (got < 0), "negative, where memory limits for every M"),
                (expected.isinf() & ~got.isposinf(), "finite, where memory limits for every M"),
                (got.isinf() & ~expected.isinf(), "infinite, where a number of rows suffices"),
            ):
                if wrong.any():
                    return f"{described('M', wrong, 'is', 'are')} {what}\n(with {trial.where})"
        return None

    hint = (
        "What becomes of the intensity as M grows without end? If that is still left of the ridge point, no M suffices."
    )
    return Property("infinity where no number of rows suffices", broken, "right", hint)


LEAST_BATCH = exercise(
    "least_batch",
    call=_batches,
    cases=_WIDE | _NARROW | _EXACT | _ABOVE | _MILLIONS,
    drawn={"other": {"n": range(3, 40)}, "many": {"n": range(100, 500)}, "narrow": {"n": range(9, 60)}},
    properties=(
        properties.finishes(),
        devices.together(),
        properties.inputs_unchanged(),
        known_mistakes.right(
            "M",
            cases=tuple(_WIDE | _MILLIONS),
            name="M rows are enough, and one less is not",
            likes=_LIKES,
            hint="Write down the time of arithmetic and the time of memory, and solve for M where the two are equal.",
        ),
        _infinite(),
        known_mistakes.right(
            "M",
            cases=tuple(_EXACT),
            name="exact where arithmetic takes as long as memory",
            likes={
                "the next whole number: a quotient that is one already is enough": lambda **of: {
                    "M": _rows(**of).floor() + 1
                }
            },
            hint="Here the quotient is a whole number, and it comes out a little above if a factor was rounded before. "
            "Multiply out, so that two whole numbers are divided, once: float64 has every whole number up to 2⁵³.",
        ),
        properties.right(
            *_ABOVE,
            name="a row more where the quotient is hardly above a whole number",
            hint="Round up the quotient itself. Whoever subtracts a little first, to guard against rounding, has a row too "
            "few here.",
        ),
        at_once("products"),
    ),
)
