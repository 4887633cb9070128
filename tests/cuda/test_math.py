"""Mathematics of floats and doubles: every function against NumPy or its definition."""

import math

import numpy as np
import pytest
import torch
from evaluate import evaluate

from kernels.cuda import RawKernel

pytestmark = pytest.mark.usefixtures("nvrtc_too")


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
    arguments = np.array([within(len(name), low, high, dtype=np.float32) for name, (_, low, high, *_) in UNARY.items()])
    # One kernel computes every function of all arguments: a compilation for each would take most of the time.
    found = evaluate(device, [f"{name}(a)" for name in UNARY], torch.float32, torch.from_numpy(arguments))
    for row, (name, (reference, _, _, relative, absolute)) in enumerate(UNARY.items()):
        x, y = arguments[row], found[row].reshape(arguments.shape)[row]
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
