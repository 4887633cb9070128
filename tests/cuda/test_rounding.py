"""Directed rounding: arithmetic and conversions against exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from evaluate import evaluate

pytestmark = pytest.mark.usefixtures("nvrtc_too")


def rounded(exact, kind, mode):
    """A fraction as a float of that kind, rounded to nearest even (rn), towards zero (rz), down (rd) or up (ru)."""
    nearest = kind(float(exact)) if kind is np.float64 else _nearest_float(exact)
    error = exact - Fraction(float(nearest))
    if mode == "rn" or error == 0:
        return nearest
    down = mode == "rd" or (mode == "rz" and exact > 0)
    if down and error < 0:
        return np.nextafter(nearest, kind(-np.inf))
    if not down and error > 0:
        return np.nextafter(nearest, kind(np.inf))
    return nearest


def _nearest_float(exact):
    guess = np.float32(float(exact))
    candidates = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    best = min(abs(exact - Fraction(float(x))) for x in candidates)
    close = [x for x in candidates if abs(exact - Fraction(float(x))) == best]
    return next((x for x in close if x.view(np.int32) % 2 == 0), close[0])


@pytest.mark.parametrize("mode", ["rn", "rz", "rd", "ru"])
def test_arithmetic_with_directed_rounding(device, mode):
    for kind, dtype, names in (
        (np.float32, torch.float32, ("__fadd", "__fsub", "__fmul", "__fdiv", "__fmaf", "__fsqrt", "__frcp")),
        (np.float64, torch.float64, ("__dadd", "__dsub", "__dmul", "__ddiv", "__fma", "__dsqrt", "__drcp")),
    ):
        rng = np.random.default_rng(3)
        a, b = ((rng.standard_normal(150) * 2.0 ** rng.integers(-30, 30, 150)).astype(kind) for _ in range(2))
        arguments = ("a, b", "a, b", "a, b", "a, b", "a, b, 0.3f", "fabs(a)", "a")
        expressions = [f"{name}_{mode}({given})" for name, given in zip(names, arguments, strict=True)]
        y = evaluate(device, expressions, dtype, torch.from_numpy(a), torch.from_numpy(b))
        third = Fraction(float(np.float32(0.3)))
        for i, (x, z) in enumerate((Fraction(float(x)), Fraction(float(z))) for x, z in zip(a, b, strict=True)):
            exact = [x + z, x - z, x * z, x / z, x * z + third]
            expected = [rounded(one, kind, mode) for one in exact]
            for row, text in enumerate(expressions[:5]):
                assert y[row, i] == expected[row], (text, a[i], b[i])
            root, reciprocal = y[5, i], rounded(1 / x, kind, mode)
            lower, upper = (np.nextafter(root, kind(one)) for one in (-np.inf, np.inf))
            squares = [Fraction(float(one)) ** 2 for one in (lower, root, upper)]
            if mode in ("rz", "rd"):
                assert squares[1] <= abs(x) < squares[2]
            elif mode == "ru":
                assert squares[0] < abs(x) <= squares[1]
            assert y[6, i] == reciprocal


@pytest.mark.parametrize("mode", ["rn", "rz", "rd", "ru"])
def test_integers_to_floats(device, mode):
    x = np.array([0, 1, -1, 2**24 + 1, -(2**24) - 1, 2**31 - 1, -(2**31), 123456789], np.int32)
    expressions = [f"__int2float_{mode}(a)", f"__uint2float_{mode}(a)"]
    y = evaluate(device, expressions, torch.float32, torch.from_numpy(x))
    assert list(y[0]) == [rounded(Fraction(int(one)), np.float32, mode) for one in x]
    assert list(y[1]) == [rounded(Fraction(int(one) & 0xFFFFFFFF), np.float32, mode) for one in x]
    x = np.array([0, 2**63 - 1, -(2**63), 2**53 + 1, -(2**53) - 1, 2**60 + 12345], np.int64)
    y = evaluate(device, [f"__ll2double_{mode}(a)"], torch.float64, torch.from_numpy(x))
    assert list(y[0]) == [rounded(Fraction(int(one)), np.float64, mode) for one in x]
    y = evaluate(device, [f"__ll2float_{mode}(a)", f"__ull2float_{mode}(a)"], torch.float32, torch.from_numpy(x))
    assert list(y[0]) == [rounded(Fraction(int(one)), np.float32, mode) for one in x]
    assert list(y[1]) == [rounded(Fraction(int(one) % 2**64), np.float32, mode) for one in x]
    x = np.array([1 + 2**-30, -1 - 2**-30, 0.1, -0.1])
    y = evaluate(device, [f"__double2float_{mode}(a)"], torch.float32, torch.from_numpy(x))
    assert list(y[0]) == [rounded(Fraction(one), np.float32, mode) for one in x]


@pytest.mark.parametrize("mode", ["rn", "rz", "rd", "ru"])
def test_floats_to_integers_saturate(device, mode):
    integral = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}[mode]
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.7, 3e9, -3e9, 1e20, -1e20, np.nan, np.inf, -np.inf, 100.25], np.float32)

    def clipped(least, most, nan):
        inside = [v if np.isfinite(v) else np.copysign(1e30, v) for v in x]
        return [nan if v != v else int(max(min(integral(w), most), least)) for v, w in zip(x, inside, strict=True)]

    y = evaluate(device, [f"__float2int_{mode}(a)", f"__float2uint_{mode}(a)"], torch.int32, torch.from_numpy(x))
    assert list(y[0]) == clipped(-(2**31), 2**31 - 1, 0)
    assert list(y[1].view(np.uint32)) == clipped(0, 2**32 - 1, 0)
    y = evaluate(device, [f"__float2ll_{mode}(a)", f"__double2ll_{mode}(a)"], torch.int64, torch.from_numpy(x))
    assert list(y[0]) == clipped(-(2**63), 2**63 - 1, -(2**63))
    assert list(y[1]) == list(y[0])
