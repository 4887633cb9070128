"""fp8 and the conversions of half and bfloat16, against torch's and against exact values."""

import math

import numpy as np
import pytest
import torch

from kernels.cuda import RawModule

pytestmark = pytest.mark.usefixtures("nvrtc_too")

FP8 = {
    "__nv_fp8_e4m3": (torch.float8_e4m3fn, "__NV_E4M3", 448.0),
    "__nv_fp8_e5m2": (torch.float8_e5m2, "__NV_E5M2", 57344.0),
}
KINDS = pytest.mark.parametrize("kind", list(FP8))


def run(code, device, outputs, *inputs, n):
    """Runs k(outputs…, inputs…) over n threads; tensors that are inputs are moved to the device."""
    code = "#include <cuda_fp8.h>\n#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n" + code
    outputs = [output.to(device) for output in outputs]
    kernel = RawModule(code=code, name_expressions=("k",)).get_function("k")
    kernel((-(-n // 64),), (64,), (*outputs, *(x.to(device) for x in inputs)))
    return [output.cpu() for output in outputs]


@KINDS
def test_every_value_to_float_and_half(device, kind):
    dtype, name, _ = FP8[kind]
    bits = torch.arange(256, dtype=torch.uint8)
    code = f"""__global__ void k(float* f, half* h, float* through, const {kind}* x) {{
        int i = blockIdx.x * 64 + threadIdx.x;
        f[i] = float(x[i]); h[i] = half(x[i]);
        through[i] = __half2float(half(__nv_cvt_fp8_to_halfraw(x[i].__x, {name})));
    }}"""
    empty = [torch.zeros(256), torch.zeros(256, dtype=torch.float16), torch.zeros(256)]
    f, h, through = run(code, device, empty, bits, n=256)
    expected = bits.view(dtype).float()
    for actual in (f, h.float(), through):
        torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


@KINDS
def test_from_float_to_nearest_even_saturating(device, kind):
    dtype, name, most = FP8[kind]
    exact = torch.arange(256, dtype=torch.uint8).view(dtype).float()
    exact = exact[exact.isfinite()].unique()
    middles = (exact[1:] + exact[:-1]) / 2
    x = torch.cat([exact, middles, torch.nextafter(middles, exact[1:]), torch.nextafter(middles, exact[:-1])])
    x = torch.cat([x, torch.tensor([1e6, -1e6, math.inf, -math.inf, math.nan]), torch.randn(100) * 20])
    n = x.numel()
    code = f"""__global__ void k({kind}* y, {kind}* z, unsigned char* w, const float* x) {{
        int i = blockIdx.x * 64 + threadIdx.x;
        if (i >= {n}) return;
        y[i] = {kind}(x[i]);
        z[i].__x = __nv_cvt_float_to_fp8(x[i], __NV_SATFINITE, {name});
        w[i] = __nv_cvt_float_to_fp8(x[i], __NV_NOSAT, {name});
    }}"""
    y, z, w = run(code, device, [torch.zeros(n, dtype=torch.uint8) for _ in range(3)], x, n=n)
    inside = x.abs() <= most
    expected = torch.where(x.isnan(), x, x.clamp(-most, most)).to(dtype).view(torch.uint8)
    not_nan = ~x.isnan()
    assert torch.equal(y[not_nan], expected[not_nan])
    assert torch.equal(y, z)
    assert torch.equal(w[inside], y[inside])
    assert y[x.isnan()].view(dtype).float().isnan().all()
    beyond = w[x.abs() > most * 1.5].view(dtype).float()
    assert (beyond.isnan() if dtype == torch.float8_e4m3fn else beyond.isinf()).all()


@KINDS
def test_pairs_and_fours(device, kind):
    dtype, _, _ = FP8[kind]
    tag = kind.removeprefix("__nv_fp8_")
    code = f"""__global__ void k(float4* back, unsigned* four, __nv_fp8x2_{tag}* two, float2* back2, half2* back3,
                      const float4* x) {{
        int i = threadIdx.x;
        __nv_fp8x4_{tag} packed(x[i]);
        four[i] = packed.__x;
        back[i] = float4(packed);
        two[i] = __nv_fp8x2_{tag}(make_float2(x[i].x, x[i].y));
        back2[i] = float2(two[i]);
        back3[i] = __half2(two[i]);
    }}"""
    x = torch.randn(64, 4) * 10
    empty = [torch.zeros(64, 4), torch.zeros(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int16)]
    empty += [torch.zeros(64, 2), torch.zeros(64, 2, dtype=torch.float16)]
    back, four, two, back2, back3 = run(code, device, empty, x, n=64)
    expected = x.to(dtype)
    assert torch.equal(back, expected.float())
    assert torch.equal(four.view(torch.uint8).view(64, 4), expected.view(torch.uint8))
    assert torch.equal(two.view(torch.uint8).view(64, 2), expected.view(torch.uint8)[:, :2])
    assert torch.equal(back2, expected.float()[:, :2])
    assert torch.equal(back3.float(), expected.float()[:, :2])


@KINDS
def test_from_half_bfloat16_and_double(device, kind):
    dtype, _, _ = FP8[kind]
    code = f"""__global__ void k({kind}* a, {kind}* b, {kind}* c, const float* x) {{
        int i = threadIdx.x;
        a[i] = {kind}(__float2half(x[i])); b[i] = {kind}(__float2bfloat16(x[i])); c[i] = {kind}(double(x[i]));
    }}"""
    x = torch.randn(64) * 10
    a, b, c = run(code, device, [torch.zeros(64, dtype=torch.uint8) for _ in range(3)], x, n=64)
    assert torch.equal(a, x.half().float().to(dtype).view(torch.uint8))
    assert torch.equal(b, x.bfloat16().float().to(dtype).view(torch.uint8))
    assert torch.equal(c, x.to(dtype).view(torch.uint8))


TYPES = {"half": ("half", torch.float16), "bfloat16": ("__nv_bfloat16", torch.bfloat16)}


@pytest.mark.parametrize("mode", ["rn", "rz", "rd", "ru"])
@pytest.mark.parametrize("name", list(TYPES))
def test_half_types_to_integers(device, name, mode):
    kind, dtype = TYPES[name]
    values = [0.5, 1.5, 2.5, -0.5, -1.5, -2.75, 30000, -30000, 100.25, math.nan, math.inf, -math.inf]
    x = torch.tensor(values).to(dtype)
    n = len(values)
    code = f"""__global__ void k(int* i, unsigned* u, short* s, unsigned short* v, long long* l, const {kind}* x) {{
        int t = threadIdx.x;
        if (t >= {n}) return;
        i[t] = __{name}2int_{mode}(x[t]); u[t] = __{name}2uint_{mode}(x[t]); s[t] = __{name}2short_{mode}(x[t]);
        v[t] = __{name}2ushort_{mode}(x[t]); l[t] = __{name}2ll_{mode}(x[t]);
    }}"""
    kinds = [(torch.int32, np.int32), (torch.int32, np.uint32), (torch.int16, np.int16), (torch.int16, np.uint16)]
    kinds += [(torch.int64, np.int64)]
    found = run(code, device, [torch.zeros(n, dtype=one) for one, _ in kinds], x, n=n)
    integral = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}[mode]
    for (_, integer), actual in zip(kinds, found, strict=True):
        limits = np.iinfo(integer)
        for value, got in zip(x.double().tolist(), actual.numpy().view(integer).tolist(), strict=True):
            if math.isnan(value):
                assert got == (limits.min if integer == np.int64 else 0)
            elif math.isinf(value):
                assert got == (limits.max if value > 0 else limits.min)
            else:
                assert got == min(max(int(integral(value)), limits.min), limits.max), (value, integer)


@pytest.mark.parametrize("mode", ["rn", "rz", "rd", "ru"])
@pytest.mark.parametrize("name", list(TYPES))
def test_integers_to_half_types(device, name, mode):
    kind, dtype = TYPES[name]
    values = [0, 1, -1, 257, -257, 2049, -2049, 4099, -4099, 30001, -30001, 12345]
    x = torch.tensor(values, dtype=torch.int32)
    n = len(values)
    code = f"""__global__ void k({kind}* a, {kind}* b, {kind}* c, const int* x) {{
        int t = threadIdx.x;
        if (t >= {n}) return;
        a[t] = __int2{name}_{mode}(x[t]); b[t] = __short2{name}_{mode}(short(x[t])); c[t] = __ll2{name}_{mode}((long long)x[t]);
    }}"""
    found = run(code, device, [torch.zeros(n, dtype=dtype) for _ in range(3)], x, n=n)
    for i, value in enumerate(values):
        nearest = torch.tensor(float(value)).to(dtype)
        step = {"rn": 0, "rd": -1, "ru": 1, "rz": -1 if value > 0 else 1}[mode]
        if step and (float(nearest) - value) * step < 0:
            bits = nearest.view(torch.int16) + (step if value > 0 else -step)
            nearest = bits.view(dtype)
        for y in found:
            assert float(y[i]) == float(nearest), (value, mode)


@pytest.mark.parametrize("name", list(TYPES))
def test_pairs_comparisons_and_functions(device, name):
    kind, dtype = TYPES[name]
    pair = {"half": "half2", "bfloat16": "__nv_bfloat162"}[name]
    join = {"half": "__halves2half2", "bfloat16": "__halves2bfloat162"}[name]
    both = {"half": "__half2half2", "bfloat16": "__bfloat162bfloat162"}[name]
    low, high = ("__low2half", "__high2half") if name == "half" else ("__low2bfloat16", "__high2bfloat16")
    code = f"""
    typedef {kind} T; typedef {pair} T2;
    __global__ void k(T* y, int* flags, const T* a, const T* b) {{
        int i = threadIdx.x;
        T x = a[i], z = b[i];
        T2 p = {join}(x, z), q = {both}(z);
        T2 sum = __hfma2(p, q, __hadd2(p, q));
        y[i] = {low}(sum); y[64 + i] = {high}(sum);
        y[128 + i] = __hmax(x, z); y[192 + i] = __hmin(x, z); y[256 + i] = __habs(x); y[320 + i] = __hneg(x);
        T2 e = h2exp(__hmul2(p, {both}(T(0.25f)))); y[384 + i] = e.x; y[448 + i] = hsqrt(__habs(x));
        T2 m = __hmax2(p, q); y[512 + i] = m.x; y[576 + i] = __hdiv(x, z); y[640 + i] = x * z - x;
        y[704 + i] = __hfma_relu(x, z, z); y[768 + i] = __hadd_sat(x, z); y[832 + i] = htanh(x);
        T2 turned = __lowhigh2highlow(p); y[896 + i] = turned.x; y[960 + i] = hrcp(z);
        T2 product = __hcmadd(p, q, p); y[1024 + i] = product.x;
        flags[i] = __hgt(x, z) | __hle(x, z) << 1 | __heq(x, x) << 2 | __hisnan(x) << 3 | (x < z) << 4 | __hbgt2(p, q) << 5
                 | __hbeq2(p, p) << 6;
    }}"""
    a, b = torch.randn(64).to(dtype), torch.randn(64).to(dtype)
    y, flags = run(code, device, [torch.zeros(17 * 64, dtype=dtype), torch.zeros(64, dtype=torch.int32)], a, b, n=64)
    x, z, rows = a.double(), b.double(), y.double().view(17, 64)
    eps = torch.finfo(dtype).eps
    wanted = [x * z + (x + z), z * z + (z + z), torch.maximum(x, z), torch.minimum(x, z), x.abs(), -x, (x / 4).exp()]
    wanted += [
        x.abs().sqrt(),
        torch.maximum(x, z),
        x / z,
        x * z - x,
        (x * z + z).relu(),
        (x + z).clamp(0, 1),
        x.tanh(),
        z,
    ]
    wanted += [1 / z, x * z - z * z + x]
    for row, (actual, expected) in enumerate(zip(rows, wanted, strict=True)):
        scale = (x.abs() * z.abs() + z * z + x.abs() + z.abs()).clamp(min=1) + expected.abs()
        assert ((actual - expected).abs() <= 2 * eps * scale).all(), row
    assert torch.equal(rows[2], wanted[2])
    assert torch.equal(rows[4], wanted[4])
    expected = (x > z).int() | (x <= z).int() << 1 | 4 | (x < z).int() << 4 | 64  # z > z is false, so never 32
    assert torch.equal(flags, expected)
