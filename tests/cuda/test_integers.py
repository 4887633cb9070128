"""Integers and bits: every function against Python's integers, and bits of another type."""

import math

import numpy as np
import pytest
import torch
from evaluate import evaluate

from kernels.cuda import RawKernel

pytestmark = pytest.mark.usefixtures("nvrtc_too")


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
