"""How far off a result may be: the one definition of the error bound.

The errors of a result and of the baseline (torch's operator in the same dtype) are taken against the float64 reference. An
operation may have a second baseline in some dtypes, and goes by the further off of the two, element by element: torch's library
divides long sums as it likes, and may round less than any kernel that adds one term after the other, or that rounds a factor
before tensor cores multiply it.

- root mean square, per row and over the whole tensor: at most 2 × the baseline's. Rows of fewer than 64 elements are taken
  together with their neighbours: of so few the baseline's own error is small by chance. So it is where one element is most
  of a row: there the median over all rows counts, of the baseline's error relative to the row, if it is more; of it at
  most a unit (below), since where most rows cancel it says nothing of the others;
- largest absolute error: at most 4 × the baseline's;
- either bound is at least unit · rms(reference), so that a lucky baseline does not forbid rounding. The unit is
  eps(dtype) / 2, the rounding of a result, and 4 · eps for float32, whose arithmetic rounds at every step. For a single
  element, |reference| takes the place of the rms where it is larger: an outlier is rounded in
  proportion to itself. A row that is small by cancellation has terms as large as others: its rms counts as 4 × the whole
  tensor's, or as 1 if that is less. And what cancels in float32, in which every kernel computes, leaves float32's unit;
- all zeros only where the bound by the baseline's error allows them. That floor is absolute, and larger than a whole result in
  float32 that is small by nature, such as a softmax over many columns;
- NaN and infinities exactly where the reference, rounded to the dtype, has them;
- integers and booleans are equal.

An *error ratio* is an error divided by its bound: 1 and less is right.
"""

import math

import torch

RMS_FACTOR, LARGEST_FACTOR = 2, 4  # times the baseline's error
FLOAT32_UNIT, HALF_UNIT = 4, 0.5  # of eps
FEWEST = 64  # elements: one of two like errors is twice the other by chance in 5 of 10⁸ times (F distribution)


def compare(
    got: torch.Tensor | None, reference: torch.Tensor, baseline: torch.Tensor, dtype: torch.dtype
) -> tuple[float, str | None]:
    """The largest error ratio of `got`, and what is wrong with it, or None. The rule stands at the head of the file."""
    if got is None:
        return math.inf, "there is none: the gradient does not flow"
    if got.shape != reference.shape or got.dtype != dtype:
        return math.inf, f"got {got.dtype} {tuple(got.shape)}, expected {dtype} {tuple(reference.shape)}"
    if reference.numel() == 0:
        return 0.0, None
    if not dtype.is_floating_point:
        if not (wrong := got != reference).any():
            return 0.0, None
        at = first(wrong)
        return (
            math.inf,
            f"{int(wrong.sum())} differ, first at {at}: got {got[at].item()}, expected {reference[at].item()}",
        )
    expected = reference.to(dtype)
    for what, of in (("NaN", torch.isnan), ("+inf", torch.isposinf), ("-inf", torch.isneginf)):
        if (wrong := of(got) != of(expected)).any():
            return math.inf, f"{what} in the wrong places, {int(wrong.sum())} of them, first at {first(wrong)}"

    finite = torch.isfinite(expected)
    zero = torch.zeros((), dtype=torch.float64, device=got.device)
    error = torch.where(finite, got.double() - reference, zero)
    allowed = torch.where(finite, baseline.double() - reference, zero).nan_to_num(0.0, 0.0, 0.0)
    size = torch.where(finite, reference, zero)

    if not got.any() and RMS_FACTOR * rms(allowed) < rms(size):
        return math.inf, f"it is all zeros, expected an rms of {float(rms(size)):.3g}"

    whole = rms(size)
    errors = {
        "rms of a row": (
            rms_of_rows(error),
            _rms_bound(_row_allowance(allowed, size, dtype), rms_of_rows(size), whole, dtype),
        ),
        "rms": (rms(error), _rms_bound(rms(allowed), whole, whole, dtype)),
        "largest error": (error.abs(), _element_bound(allowed, size, dtype)),
    }
    ratios = {what: (one / bound) for what, (one, bound) in errors.items()}
    what = max(ratios, key=lambda what: float(ratios[what].max()))
    ratio = float(ratios[what].max())
    if ratio <= 1:
        return ratio, None
    worst = first(ratios[what] == ratios[what].max()) if ratios[what].dim() else ()
    one, bound = (float(values.expand(ratios[what].shape)[worst]) for values in errors[what])
    at = first(error.abs() == error.abs().max())
    return ratio, (
        f"{what} is {one:.3g}, {ratio:.3g} × its bound of {bound:.3g}; "
        f"furthest off is {at}: got {float(got[at]):.6g}, expected {float(reference[at]):.6g}"
    )


def wrong_elements(got: torch.Tensor, expected: torch.Tensor, baseline: torch.Tensor) -> torch.Tensor:
    """The elements that are further off than a single one may be, as a mask."""
    allowed = (baseline.double() - expected).nan_to_num(0.0, 0.0, 0.0)
    bound = _element_bound(allowed, expected.double().nan_to_num(0.0, 0.0, 0.0), got.dtype)
    error = (got.double() - expected).abs()
    same = (got == expected.to(got.dtype)) | (got.isnan() & expected.isnan())
    return ~same & ~(error <= bound)


def unit(dtype: torch.dtype) -> float:
    """The least error, relative to a result, that is never held against it."""
    return (FLOAT32_UNIT if dtype == torch.float32 else HALF_UNIT) * torch.finfo(dtype).eps


def rms(values: torch.Tensor, dim: int | None = None) -> torch.Tensor:
    return values.square().mean(dim).sqrt()


def rms_of_rows(values: torch.Tensor) -> torch.Tensor:
    """The root mean square of each row, or where rows are short of each group of neighbouring rows that has enough elements."""
    if values.dim() < 2 or values.shape[-1] >= FEWEST:
        return rms(values, -1 if values.dim() else None)
    rows = values.square().flatten(0, -2).mean(-1)
    together = min(-(-FEWEST // values.shape[-1]), len(rows))
    groups = rows[: len(rows) // together * together].view(-1, together)
    return torch.cat((groups, rows[None, -together:])).mean(-1).sqrt()  # the last ones may be among those before


def _row_allowance(allowed: torch.Tensor, size: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What the baseline is off in each row, or what it usually is, relative to the row, where that is more."""
    own, sizes = rms_of_rows(allowed), rms_of_rows(size)
    usual = (own / sizes)[sizes > 0]
    return torch.maximum(own, usual.median().clamp(max=unit(dtype)) * sizes) if usual.numel() else own


def first(mask: torch.Tensor) -> tuple[int, ...]:
    """The index of the first element that is true."""
    return tuple(mask.nonzero()[0].tolist())


def _floor(size: torch.Tensor, whole: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """For results of that rms, or of that size, in a tensor whose rms is `whole`."""
    size = torch.maximum(size, (LARGEST_FACTOR * whole).clamp(max=1))
    return (unit(dtype) * size).clamp(min=unit(torch.float32))


def _rms_bound(allowed: torch.Tensor, size: torch.Tensor, whole: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.maximum(RMS_FACTOR * allowed, _floor(size, whole, dtype))


def _element_bound(allowed: torch.Tensor, size: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    whole = rms(size)
    return torch.maximum(LARGEST_FACTOR * allowed.abs().max(), _floor(torch.maximum(size.abs(), whole), whole, dtype))
