"""Bytes of an image to floats, rows that are longer in memory than the image is wide, one thread a pixel and any grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from kernels.grading import properties
from kernels.grading.exercise import UNWRITTEN, Call, Exercise, Property, Trial
from kernels.grading.properties import counters, known_mistakes, load_balance
from kernels.grading.properties.differences import described, differing
from kernels.grading.properties.wide_index import FAR, also_far
from kernels.hardware import WARP

_FAR_CASES = "apart", "many"  # cases, with a property of their own


def _call(
    random: torch.Generator,
    H: int,
    W: int,
    x_stride: int,
    y_stride: int,
    block: tuple[int, int],
    grid: tuple[int, int] | None = None,
    ends: bool = False,
    std: float = 0.2,
) -> Call:
    """ends: of rows that have no gaps between them, only the first and the last are there."""
    # Part of a larger image: what follows its last pixel is no one's, and the padding of y holds numbers.
    far = ends or x_stride >= FAR
    there, distance = (2, H - 1) if ends else (H, 1)
    rows = torch.randint(0, 256, (there, W if far else x_stride), dtype=torch.uint8, generator=random)
    x = rows if far else rows.flatten()[: (H - 1) * x_stride + W]
    y = 100 + torch.rand(there, W if far else y_stride, generator=random)
    y[:, :W] = UNWRITTEN
    first, second = (torch.rand((), generator=random).item() for _ in range(2))
    mean, deviation = np.float32(0.4 + 0.2 * first), np.float32(std + std * second)
    args = {"y": y, "x": x, "mean": mean, "std": deviation}
    args |= {"H": H, "W": W, "x_stride": x_stride, "y_stride": y_stride}
    return Call(
        args,
        expected={"y": _padded((rows[:, :W].double() / 255 - float(mean)) / float(deviation), y)},
        baseline={"y": _padded((rows[:, :W].float() / 255 - float(mean)) / float(deviation), y)},
        updated=("y",),
        grid=grid or (max(1, -(-W // block[0])), max(1, -(-H // block[1]))),
        block=block,
        strides={"y": (distance * y_stride, 1), "x": (distance * x_stride, 1)} if far else {},
        ends_only=ends,
    )


def _padded(pixels: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([pixels, y[:, pixels.shape[1] :].to(pixels.dtype)], dim=1)


def _pixel_property(whole: Property) -> Property:
    """The property, judged of the image alone, without the padding; and not of cases for which `also_far` is."""

    def cut(trial: Trial) -> Trial:
        call, W = trial.call, trial.sizes["W"]
        expected, baseline = ({"y": of["y"][:, :W]} for of in (call.expected, call.baseline))
        outputs = {name: y[:, :W] for name, y in trial.outputs.items()}
        args = {**call.args, "y": call.args["y"][:, :W]}
        return replace(trial, outputs=outputs, call=replace(call, args=args, expected=expected, baseline=baseline))

    return replace(
        whole, broken=lambda trials: whole.broken([cut(trial) for trial in trials if trial.case not in _FAR_CASES])
    )


_OWN = "no guard is missing"


def _inside(hint: str) -> Property:
    """As `properties.stays_inside`. Of a thread that has a pixel, it says so: then an index is wrong, and no guard."""
    plain = properties.stays_inside({_OWN: "A row of x has x_stride elements, and one of y y_stride.", "": hint})

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in trials:
            if (message := plain.broken([trial])) is None:
                continue
            found = next(one for trace in trial.traces for one in trace.findings if str(one) in message)
            if found.kind != "out of bounds" or found.block is None or not found.threads:
                return message
            j, i = (b * size + t for b, size, t in zip(found.block, trial.call.block, found.threads[-1], strict=False))
            if i >= trial.sizes["H"] or j >= trial.sizes["W"]:
                return message
            return f"{message}\nthis thread has pixel ({i}, {j}), so {_OWN}: an index is too large"
        return None

    return replace(plain, broken=broken)


def _padding_is_left(hint: str) -> Property:
    """The elements of y between the rows are the numbers that they were."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in (one for one in trials if one.outputs):
            changed = differing(trial.outputs["y"], trial.call.args["y"])
            changed[:, : trial.sizes["W"]] = False
            if changed.any():
                lines = {one.line for one in trial.accesses if one.kind == "store"}
                many = "s" if len(lines) > 1 else ""
                found = described("y", changed, "is", "are")
                return f"line{many} {', '.join(map(str, sorted(lines)))}: {found} padding and should stay as they were"
        return None

    return Property("the padding of y is left alone", broken, "writes", hint)


def _each_once() -> Property:
    """No more elements of y are stored than there are pixels."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in trials:
            stores = [one for one in trial.accesses if one.kind != "load" and one.space == "global"]
            stored, pixels = sum(one.bytes for one in stores) // 4, trial.sizes["H"] * trial.sizes["W"]
            if stored > pixels:
                launch = f"grid = {trial.call.grid}, block = {trial.call.block}"
                return (
                    f"{stored:,} numbers were stored for {pixels:,} pixels: some have several threads\n(with {launch})"
                )
        return None

    hint = (
        "Values are right even if two threads do the same. Which pixels does the first thread of the second block take?"
    )
    return Property("no pixel is computed twice", broken, "costs", hint)


def _likely(formula: Callable[[torch.Tensor, float, float], torch.Tensor]) -> Callable[..., dict]:
    """The image by another formula, of x, mean and std."""

    def values(x: torch.Tensor, mean: float, std: float, H: int, W: int, x_stride: int, **_: object) -> dict:
        return {"y": formula(x.as_strided((H, W), (x_stride, 1)).double(), float(mean), float(std))}

    return values


_MISTAKES = {
    "a quotient of integers, which drops the fraction: 254 / 255 is 0. Divide by 255.0f": _likely(
        lambda x, mean, std: ((x / 255).floor() - mean) / std
    ),
    "mean and std exchanged": _likely(lambda x, mean, std: (x / 255 - std) / mean),
    "x / 255 − mean / std: parentheses are missing": _likely(lambda x, mean, std: x / 255 - mean / std),
    "a division by 256; the largest byte is 255": _likely(lambda x, mean, std: (x / 256 - mean) / std),
    "bytes from −128 to 127: a signed char. x is unsigned": _likely(
        lambda x, mean, std: ((x - 256 * (x > 127)) / 255 - mean) / std
    ),
}


# Of images larger than those that stay.
_LARGE = {"H": range(64, 257, 16), "W": range(64, 961, 64), "x_stride": range(960, 1000), "y_stride": range(960, 1000)}


def _lanes_at_work() -> Property:
    """In the case whose rows are whole warps, half of the lanes at least store at once."""
    return counters.at_most(
        "global_store_requests",
        lambda H, W, **_: 2 * H * W // WARP,
        "even",
        name="the lanes of a warp share the work",
        advice="let every thread of a warp have pixels of its own",
    )


def _exercise(
    name: str, cases: dict, drawn: dict[str, dict[str, range]], others: str, missed: str, *more: Property
) -> Exercise:
    first, *rest = (case for case in cases if case not in _FAR_CASES)
    return Exercise(
        name=name,
        language="cuda",
        call=_call,
        cases=cases,
        drawn={"odd": {"H": range(1, 24), "W": range(1, 41)}, **drawn},
        properties=(
            _inside(
                "Which i and j have a pixel? Each index needs its own guard, before the first access: after its last "
                "pixel x ends. And if the access is misaligned: at which addresses do rows begin?"
            ),
            properties.finishes(),
            properties.without(
                "race",
                name="no race",
                hint="What lies one column beyond the last? If the guard lets it pass, two threads meet in the next row.",
            ),
            _padding_is_left("A row of y has y_stride elements, and W of them are the image's: compare j with W."),
            _pixel_property(properties.written("every pixel is written", hint=missed)),
            _pixel_property(
                known_mistakes.right(
                    "y",
                    cases=(first,),
                    name="y is (x / 255 − mean) / std",
                    likes=_MISTAKES,
                    hint="Compute one of these by hand. If another pixel has that value: where does row i begin, in x "
                    "and in y? They have strides of their own.",
                )
            ),
            _pixel_property(known_mistakes.right("y", cases=rest, name=others, likes=_MISTAKES)),
            _each_once(),
            *more,
            also_far(
                *_FAR_CASES,
                hint="The product of two ints is an int, and at most 2³¹ − 1, and an unsigned one at most "
                "2³² − 1. The third row begins beyond 2 · 2³⁰, and the fifth beyond 4 · 2³⁰; there may be as many pixels, "
                "and more in a row than a short counts.",
            ),
        ),
        unwatched=tuple(case for case in cases if case in _FAR_CASES),
    )


EXERCISES = (
    _exercise(
        "normalise",
        {
            "even": {"H": 16, "W": 64, "x_stride": 80, "y_stride": 72, "block": (32, 4)},
            "odd": {"H": 5, "W": 37, "x_stride": 47, "y_stride": 41, "block": (16, 8)},
            "one": {"H": 1, "W": 1, "x_stride": 3, "y_stride": 2, "block": (8, 2)},
            "empty": {"H": 3, "W": 0, "x_stride": 4, "y_stride": 4, "block": (8, 2)},
            "tall": {"H": 300, "W": 5, "x_stride": 6, "y_stride": 7, "block": (8, 4), "std": 1e-7},
            "apart": {"H": 5, "W": 40_000, "x_stride": FAR + 1, "y_stride": FAR + 3, "block": (8, 2)},
        },
        {"even": _LARGE},
        "also for an image that the blocks do not divide",
        "Columns are counted by x, rows by y. What is the column of a thread in block blockIdx.x?",
        _lanes_at_work(),
        load_balance.balanced("y", slack=4, hint="One thread a pixel: which pixel has a thread of the last block?"),
    ),
    _exercise(
        "normalise_loop",
        {
            "even": {"H": 16, "W": 64, "x_stride": 80, "y_stride": 72, "block": (32, 4), "grid": (1, 2)},
            "odd": {"H": 9, "W": 37, "x_stride": 48, "y_stride": 40, "block": (8, 2), "grid": (2, 1)},
            "blocks": {"H": 19, "W": 93, "x_stride": 104, "y_stride": 96, "block": (8, 4), "grid": (6, 5)},
            "alone": {"H": 3, "W": 5, "x_stride": 6, "y_stride": 7, "block": (1, 1), "grid": (1, 1)},
            "tall": {"H": 300, "W": 5, "x_stride": 6, "y_stride": 7, "block": (4, 4), "grid": (1, 3), "std": 1e-7},
            "spare": {"H": 2, "W": 3, "x_stride": 4, "y_stride": 4, "block": (4, 4), "grid": (3, 2)},
            "empty": {"H": 3, "W": 0, "x_stride": 4, "y_stride": 4, "block": (8, 2), "grid": (1, 1)},
            "apart": {"H": 5, "W": 40_000, "x_stride": FAR + 1, "y_stride": FAR + 3, "block": (2, 2), "grid": (1, 1)},
            # The last row is the last block's, whether threads are counted by rows and columns or from 0 to the last.
            "many": {"H": 65_535 * 10_240, "W": 7, "x_stride": 9, "y_stride": 8, "block": (8, 1), "grid": (1, 65_535)}
            | {"ends": True},
        },
        {"even": _LARGE, "blocks": _LARGE | {"W": range(65, 960, 64)}},
        "also for other images and grids",
        "A thread's next pixel lies a whole grid further: how many threads does the grid have in x? And in y?",
        _lanes_at_work(),
        load_balance.balanced("y", slack=4, hint="A thread's first pixel depends on blockIdx, in x and in y."),
    ),
)
