"""Mathematics, integers, bits and conversions: every function against NumPy, exact fractions or its definition."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from kernels.cuda import RawKernel

pytestmark = pytest.mark.usefixtures("nvrtc_too")


def evaluate(device, expressions, out, *inputs):
    """One row per expression of a, b, c (and i), computed by one kernel. out: a C type and a dtype."""
    names = {torch.float32: "float", torch.float64: "double", torch.int32: "int", torch.int64: "long long"}
    names |= {torch.uint32: "unsigned", torch.uint64: "unsigned long long"}
    n = inputs[0].numel()
    parameters = "".join(f", const {names[x.dtype]}* {name}s" for x, name in zip(inputs, "abc", strict=False))
    loads = " ".join(f"{names[x.dtype]} {name} = {name}s[i];" for x, name in zip(inputs, "abc", strict=False))
    stores = "\n".join(f"out[{row * n} + i] = {text};" for row, text in enumerate(expressions))
    code = f"""__global__ void k({names[out]}* out{parameters}) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= {n}) return;
        {loads}
        {stores}
    }}"""
    result = torch.zeros(len(expressions), n, dtype=out, device=device)
    RawKernel(code, "k")((-(-n // 128),), (128,), (result, *(x.to(device) for x in inputs)))
    return result.cpu().numpy()


def within(value, low, high, n=400, dtype=np.float64):
    return np.random.default_rng(value).uniform(low, high, n).astype(dtype)


erf = np.vectorize(math.erf)
erfc = np.vectorize(math.erfc)
# Name: (reference, least and greatest argument, relative error, absolute error). The fast ones: CUDA C++ Programming
# Guide, "Mathematical Functions", table of intrinsics.
UNARY = {
    "sqrtf": (np.sqrt, 0, 1e6, 3e-7, 0), "rsqrtf": (lambda x: 1 / np.sqrt(x), 1e-3, 1e6, 3e-7, 0),
    "cbrtf": (np.cbrt, -9, 9, 3e-7, 0), "rcbrtf": (lambda x: 1 / np.cbrt(x), 1, 9, 3e-7, 0),
    "expf": (np.exp, -80, 80, 3e-7, 0), "exp2f": (np.exp2, -100, 100, 3e-7, 0),
    "exp10f": (lambda x: 10**x, -30, 30, 5e-7, 0), "expm1f": (np.expm1, -1, 1, 3e-7, 0),
    "logf": (np.log, 2, 1e6, 3e-7, 0), "log2f": (np.log2, 2, 1e6, 3e-7, 0), "log10f": (np.log10, 2, 1e6, 3e-7, 0),
    "log1pf": (np.log1p, -0.5, 5, 3e-7, 1e-9), "sinf": (np.sin, -9, 9, 0, 3e-7), "cosf": (np.cos, -9, 9, 0, 3e-7),
    "tanf": (np.tan, -1, 1, 5e-7, 0), "sinpif": (lambda x: np.sin(np.pi * x), -3, 3, 0, 5e-7),
    "cospif": (lambda x: np.cos(np.pi * x), -3, 3, 0, 5e-7), "tanhf": (np.tanh, -9, 9, 5e-7, 0),
    "erff": (erf, -3, 3, 5e-7, 0), "erfcf": (erfc, -3, 6, 2e-6, 0), "ceilf": (np.ceil, -9, 9, 0, 0),
    "floorf": (np.floor, -9, 9, 0, 0), "truncf": (np.trunc, -9, 9, 0, 0), "rintf": (np.rint, -9, 9, 0, 0),
    "fabsf": (np.abs, -9, 9, 0, 0), "normcdff": (lambda x: erfc(-x / math.sqrt(2)) / 2, -5, 5, 2e-6, 0),
    "erfinvf": (None, -0.99, 0.99, 2e-6, 0), "erfcinvf": (None, 0.01, 1.99, 2e-6, 1e-7),
    "normcdfinvf": (None, 0.01, 0.99, 2e-6, 1e-6), "erfcxf": (lambda x: np.exp(x * x) * erfc(x), -2, 5, 2e-6, 0),
    "__expf": (np.exp, -10, 10, 1e-5, 0), "__exp10f": (lambda x: 10**x, -5, 5, 1e-5, 0),
    "__logf": (np.log, 2, 100, 1e-5, 0), "__log2f": (np.log2, 2, 100, 1e-5, 0), "__log10f": (np.log10, 2, 100, 1e-5, 0),
    "__sinf": (np.sin, -3, 3, 0, 2e-6), "__cosf": (np.cos, -3, 3, 0, 2e-6), "__tanf": (np.tan, -1, 1, 1e-5, 2e-6),
    "__saturatef": (lambda x: np.clip(x, 0, 1), -2, 2, 0, 0), "__frsqrt_rn": (lambda x: 1 / np.sqrt(x), 1, 9, 1e-7, 0),
}  # fmt: skip
INVERSES = {"erfinvf": erf, "erfcinvf": erfc, "normcdfinvf": lambda x: erfc(-x / math.sqrt(2)) / 2}


def test_functions_of_one_float(device):
    for name, (reference, low, high, relative, absolute) in UNARY.items():
        x = within(len(name), low, high, dtype=np.float32)
        (y,) = evaluate(device, [f"{name}(a)"], torch.float32, torch.from_numpy(x))
        assert y.astype(np.float64).std() > 0, name
        if reference is None:
            inverse = INVERSES[name](y.astype(np.float64))
            np.testing.assert_allclose(inverse, x, relative * 5, 1e-6, err_msg=name)
        else:
            np.testing.assert_allclose(y, reference(x.astype(np.float64)), relative, absolute, err_msg=name)


def test_functions_of_doubles(device):
    x = torch.from_numpy(within(1, 0.01, 0.99))
    expressions = [
        "rsqrt(a)",
        "exp10(a)",
        "erfinv(a)",
        "normcdfinv(a)",
        "sinpi(a)",
        "cbrt(a)",
        "fma(a, a, a)",
        "erfcx(a)",
    ]
    y = evaluate(device, expressions, torch.float64, x)
    x = x.numpy()
    np.testing.assert_allclose(y[0], 1 / np.sqrt(x), 1e-14)
    np.testing.assert_allclose(y[1], 10**x, 1e-14)
    np.testing.assert_allclose(erf(y[2]), x, 1e-14)
    np.testing.assert_allclose(erfc(-y[3] / math.sqrt(2)) / 2, x, 1e-14)
    np.testing.assert_allclose(y[4], np.sin(np.pi * x), 1e-14)
    np.testing.assert_allclose(y[5], np.cbrt(x), 1e-14)
    np.testing.assert_allclose(y[6], x * x + x, 1e-15)
    np.testing.assert_allclose(y[7], np.exp(x * x) * erfc(x), 1e-14)


def test_functions_of_several_floats(device):
    a, b = (torch.from_numpy(within(seed, 0.5, 4, dtype=np.float32)) for seed in (1, 2))
    expressions = ["fmaf(a, b, a)", "powf(a, b)", "__powf(a, b)", "fdividef(a, b)", "__fdividef(a, b)", "fmodf(a, b)"]
    expressions += ["hypotf(a, b)", "atan2f(a, b)", "copysignf(a, -b)", "fdimf(a, b)", "remainderf(a, b)"]
    expressions += ["rhypotf(a, b)", "norm3df(a, b, a)", "fminf(a, b)", "fmaxf(a, b)", "min(a, b)", "max(a, b)"]
    y = evaluate(device, expressions, torch.float32, a, b)
    a, b = a.double().numpy(), b.double().numpy()
    wanted = [a * b + a, a**b, a**b, a / b, a / b, np.fmod(a, b), np.hypot(a, b), np.arctan2(a, b), -a]
    wanted += [np.maximum(a - b, 0), a - b * np.rint(a / b), 1 / np.hypot(a, b), np.sqrt(2 * a * a + b * b)]
    wanted += [np.minimum(a, b), np.maximum(a, b)] * 2
    for text, actual, expected in zip(expressions, y, wanted, strict=True):
        np.testing.assert_allclose(actual, expected, 2e-5 if text.startswith("__") else 2e-6, 1e-6, err_msg=text)


def test_minimum_and_maximum_of_every_type(device):
    # Mixed signedness goes to unsigned; NaN loses.
    expressions = ["min(-1, 2u) == 2u", "max(-1, 2u) == 0xffffffffu", "max(3ll, -4ll) == 3", "min(5ull, 4ull) == 4"]
    expressions += [
        "max(1.5f, 2.0) == 2.0",
        "fmaxf(__int_as_float(0x7fffffff), 2.0f) == 2.0f",
        "min(-0.5, -1.0) == -1.0",
    ]
    expressions += [
        "max(__int_as_float(0x7fffffff), 3.0f) == 3.0f",
        "abs(-3) == 3",
        "fabs(-2.5) == 2.5",
        "umax(3u, 4u) == 4u",
    ]
    assert (evaluate(device, expressions, torch.int32, torch.zeros(3)) == 1).all()


def test_classification(device):
    x = torch.tensor([1.0, math.inf, -math.inf, math.nan, -0.0, 1e-40])
    expressions = ["isnan(a)", "isinf(a)", "isfinite(a)", "signbit(a) != 0", "a == 0.0f"]
    y = evaluate(device, expressions, torch.int32, x) != 0
    np.testing.assert_array_equal(y[0], np.isnan(x.numpy()))
    np.testing.assert_array_equal(y[1], np.isinf(x.numpy()))
    np.testing.assert_array_equal(y[2], np.isfinite(x.numpy()))
    np.testing.assert_array_equal(y[3], [0, 0, 1, 0, 1, 0])


def test_names_of_the_c_library_need_no_include(device):
    code = """
    #include <cuda/std/cstdint>
    __global__ void k(const float* x, double* y) {
        uint8_t byte = 255; int64_t wide = -1; uint32_t word = UINT_MAX; size_t n = sizeof(uint64_t);
        y[0] = INFINITY; y[1] = isnan(NAN); y[2] = FLT_MAX; y[3] = INT_MIN; y[4] = M_PI; y[5] = -FLT_MIN; y[6] = DBL_EPSILON;
        y[7] = byte + wide; y[8] = word; y[9] = n;
    }"""
    y = torch.zeros(10, dtype=torch.float64, device=device)
    RawKernel(code, "k")((1,), (1,), (torch.zeros(1, device=device), y))
    limits = torch.finfo(torch.float32)
    expected = [math.inf, 1, limits.max, -(2**31), math.pi, -limits.tiny, 2.0**-52, 254, 2**32 - 1, 8]
    assert y.tolist() == expected


def test_sincos(device):
    x = torch.from_numpy(within(5, -4, 4, dtype=np.float32))
    code = """__global__ void k(const float* x, float* y) {
        int i = threadIdx.x, n = blockDim.x;
        sincosf(x[i], &y[i], &y[n + i]); __sincosf(x[i], y + 2 * n + i, y + 3 * n + i);
        sincospif(x[i], y + 4 * n + i, y + 5 * n + i);
    }"""
    y = torch.zeros(6, 400, device=device)
    RawKernel(code, "k")((1,), (400,), (x.to(device), y))
    t = x.double()
    expected = [t.sin(), t.cos(), t.sin(), t.cos(), (math.pi * t).sin(), (math.pi * t).cos()]
    torch.testing.assert_close(y.cpu().double(), torch.stack(expected), rtol=0, atol=3e-6)


WORDS = np.concatenate(
    [
        [0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x80808080, 0x7F7F7F7F],
        np.random.default_rng(0).integers(0, 2**32, 120),
    ]
).astype(np.uint32)
A, B = WORDS, np.roll(WORDS, 7)


def words(x):
    return torch.from_numpy(x.view(np.int32))


def python(function, *arrays):
    """A function of Python integers applied to every element, cut to 32 bits."""
    return np.array([function(*map(int, values)) & 0xFFFFFFFF for values in zip(*arrays, strict=True)], np.uint32)


def signed(x, bits=32):
    return x - (1 << bits) if x >> (bits - 1) else x


INTEGERS = {
    "__popc(a)": lambda a, b: a.bit_count(),
    "__clz(a)": lambda a, b: 32 - a.bit_length(),
    "__ffs(a)": lambda a, b: (a & -a).bit_length(),
    "__brev(a)": lambda a, b: int(f"{a:032b}"[::-1], 2),
    "__mulhi(a, b)": lambda a, b: signed(a) * signed(b) >> 32,
    "__umulhi(a, b)": lambda a, b: a * b >> 32,
    "__mul24(a, b)": lambda a, b: signed(a & 0xFFFFFF, 24) * signed(b & 0xFFFFFF, 24),
    "__umul24(a, b)": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "__sad(a, b, 7u)": lambda a, b: abs(signed(a) - signed(b)) + 7,
    "__usad(a, b, 7u)": lambda a, b: abs(a - b) + 7,
    "__hadd(a, b)": lambda a, b: signed(a) + signed(b) >> 1,
    "__rhadd(a, b)": lambda a, b: signed(a) + signed(b) + 1 >> 1,
    "__uhadd(a, b)": lambda a, b: a + b >> 1,
    "__urhadd(a, b)": lambda a, b: a + b + 1 >> 1,
    "__byte_perm(a, b, 0x5410)": lambda a, b: a & 0xFFFF | b << 16,
    "__byte_perm(a, b, 0x0123)": lambda a, b: int.from_bytes(a.to_bytes(4, "big"), "little"),
    "__byte_perm(a, b, 0x7632)": lambda a, b: a >> 16 | b & 0xFFFF0000,
    "__funnelshift_l(a, b, 5)": lambda a, b: (b << 32 | a) << 5 >> 32,
    "__funnelshift_r(a, b, 37)": lambda a, b: (b << 32 | a) >> 5,
    "__funnelshift_lc(a, b, 40)": lambda a, b: a,
    "__funnelshift_rc(a, b, 40)": lambda a, b: b,
    "__dp4a(a, b, 9)": lambda a, b: 9 + sum(signed(a >> s & 255, 8) * signed(b >> s & 255, 8) for s in (0, 8, 16, 24)),
    "__dp4a((unsigned)a, (unsigned)b, 9u)": lambda a, b: 9 + sum((a >> s & 255) * (b >> s & 255) for s in (0, 8, 16, 24)),
    "__dp2a_lo(a, b, 9)": lambda a, b: 9 + sum(signed(a >> 2 * s & 65535, 16) * signed(b >> s & 255, 8) for s in (0, 8)),
    "__dp2a_hi(a, b, 9)": lambda a, b: 9 + sum(signed(a >> 2 * s & 65535, 16) * signed(b >> s + 16 & 255, 8) for s in (0, 8)),
}  # fmt: skip


def test_integer_intrinsics(device):
    y = evaluate(device, list(INTEGERS), torch.int32, words(A), words(B)).view(np.uint32)
    for (text, reference), actual in zip(INTEGERS.items(), y, strict=True):
        np.testing.assert_array_equal(actual, python(reference, A, B), err_msg=text)


def test_64_bit_intrinsics(device):
    a = np.random.default_rng(1).integers(-(2**63), 2**63, 100)
    a[:3] = 0, -1, -(2**63)
    b = np.roll(a, 3)
    expressions = ["__popcll(a)", "__clzll(a)", "__ffsll(a)", "__brevll(a)", "__mul64hi(a, b)", "__umul64hi(a, b)"]
    y = evaluate(device, expressions, torch.int64, torch.from_numpy(a), torch.from_numpy(b))
    mask = 2**64 - 1
    u, v = ([int(one) & mask for one in x] for x in (a, b))
    wanted = [
        [x.bit_count() for x in u],
        [64 - x.bit_length() for x in u],
        [(x & -x).bit_length() for x in u],
        [signed(int(f"{x:064b}"[::-1], 2), 64) for x in u],
        [int(x) * int(z) >> 64 for x, z in zip(a, b, strict=True)],
        [signed(x * z >> 64, 64) for x, z in zip(u, v, strict=True)],
    ]
    np.testing.assert_array_equal(y, np.array(wanted, np.int64))


def test_simd_intrinsics(device):
    for suffix, s, u in (("2", np.int16, np.uint16), ("4", np.int8, np.uint8)):
        most, least, top = np.iinfo(s).max, np.iinfo(s).min, np.iinfo(u).max
        sa, sb, ua, ub = (x.view(kind).astype(np.int64) for kind in (s, u) for x in (A, B))
        wanted = {
            "__vadd": ua + ub, "__vsub": ua - ub, "__vaddss": np.clip(sa + sb, least, most),
            "__vsubss": np.clip(sa - sb, least, most), "__vaddus": np.clip(ua + ub, 0, top),
            "__vsubus": np.clip(ua - ub, 0, top), "__vavgu": (ua + ub + 1) >> 1, "__vhaddu": (ua + ub) >> 1,
            "__vmaxs": np.maximum(sa, sb), "__vmaxu": np.maximum(ua, ub), "__vmins": np.minimum(sa, sb),
            "__vminu": np.minimum(ua, ub), "__vabsdiffu": abs(ua - ub), "__vabsdiffs": abs(sa - sb),
            "__vcmpeq": -(ua == ub).astype(int), "__vcmpgts": -(sa > sb).astype(int),
            "__vcmpleu": -(ua <= ub).astype(int), "__vsetltu": (ua < ub).astype(int), "__vsetges": (sa >= sb).astype(int),
        }  # fmt: skip
        expressions = [f"{name}{suffix}(a, b)" for name in wanted] + [f"__vabsss{suffix}(a)", f"__vneg{suffix}(a)"]
        y = evaluate(device, expressions, torch.int32, words(A), words(B))
        for text, actual, expected in zip(
            expressions, y, [*wanted.values(), np.minimum(abs(sa), most), -sa], strict=True
        ):
            np.testing.assert_array_equal(actual.view(u), expected.astype(u), err_msg=text)
        (sums,) = evaluate(device, [f"__vsadu{suffix}(a, b)"], torch.int32, words(A), words(B))
        np.testing.assert_array_equal(sums, abs(ua - ub).reshape(len(A), -1).sum(1))


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


def test_reinterpretations(device):
    x = torch.tensor([1.5, -2.25, math.inf])
    expressions = ["__float_as_int(a)", "__float_as_uint(a)", "__float_as_int(__int_as_float(__float_as_int(a)))"]
    y = evaluate(device, expressions, torch.int32, x)
    assert (y == x.view(torch.int32).numpy()).all()
    expressions = [
        "__hiloint2double(__double2hiint(a), __double2loint(a))",
        "__longlong_as_double(__double_as_longlong(a))",
    ]
    y = evaluate(device, expressions, torch.float64, x.double())
    assert (y == x.double().numpy()).all()
    code = """__global__ void k(const float* x, unsigned* y) {
        union { float f; unsigned u; unsigned char bytes[4]; } both;
        both.f = x[threadIdx.x];
        y[threadIdx.x] = both.u ^ both.bytes[3];
        y[threadIdx.x] ^= *reinterpret_cast<const unsigned*>(&x[threadIdx.x]);
    }"""
    y = torch.zeros(3, dtype=torch.int32, device=device)
    RawKernel(code, "k")((1,), (3,), (x.to(device), y))
    assert torch.equal(y.cpu(), x.view(torch.int32) >> 24 & 255)
