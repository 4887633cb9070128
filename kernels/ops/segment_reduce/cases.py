"""The inputs that sums of segments are checked and timed on. A case's shape is that of x, rows × columns."""

from dataclasses import replace
from typing import Any

import torch

from kernels.operation import Case
from kernels.row_cases import each, generator, rows

SEGMENTS = 4
CASES: dict[str, tuple[Case, ...]] = {
    "edge": (
        *each(*((5, width) for width in (1, 2, 31, 33, 128, 1_000)), (3, 2_051), (0, 64), (3, 0), (1, 1)),
        *each((700, 1), (700, 33), (513, 40)),
        # Rows so many that they are in parts, and segments over the ends of parts.
        *each((2_100, 33)),
        *each((2_100, 33), sizes={"segments": 250}, params={"mean": True}),
        *each((2_100, 33), values="one"),
        *each((300, 8), (300, 3), sizes={"segments": 250}),
        *each((400, 24), sizes={"segments": 1}),
        *each((256, 5), (400, 24), params={"mean": True}),
        *each((300, 6), values="one"),
        *(case for layout in ("rows", "transposed", "expanded") for case in each((6, 100), layout=layout)),
        *(
            case
            for name in ("offset", "constant", "nonfinite", "large", "small")
            for case in each((9, 40), values=name)
        ),
    ),
    "model": (
        *each((1_024, 64), sizes={"segments": 16}),
        *each((384, 128), sizes={"segments": 100}, params={"mean": True}),
    ),
    "repeated": (Case((3_000, 20)),),
    "huge": (),  # of few rows there are other segments: tests/test_segment_reduce.py has this case
    "bench": tuple(
        Case(shape, "bfloat16", sizes={"segments": segments})
        for shape, segments in (((1_048_576, 128), 65_536), ((1_048_576, 128), 16), ((262_144, 1_024), 4_096))
    ),
}


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    """Segments whose ends are random numbers squared: many are short or empty, and the last are long. "one" has all rows in
    the second."""
    random, T, S = generator(case, device), case.shape[0], case.sizes.get("segments", SEGMENTS)
    values = "realistic" if case.values == "one" else case.values
    x = rows(replace(case, values=values), random)
    ends = (torch.rand(S - 1, generator=random, device=device).square() * T).long().sort().values
    if case.values == "one":
        ends[0], ends[1:] = 0, T
    ends = torch.cat((ends.new_zeros(1), ends, ends.new_full((1,), T)))
    return {"x": x, "offsets": ends} | dict(case.params)


def few(case: Case, rows: int) -> Case:
    """As many rows, in few segments, as are still in parts: their numbers change no kernel."""
    T, D = case.shape
    return replace(
        case, shape=(min(T, 4_100 + rows), D), sizes={"segments": min(case.sizes.get("segments", SEGMENTS), 16)}
    )
