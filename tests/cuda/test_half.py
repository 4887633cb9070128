"""half and bfloat16 on both machines: conversions round to nearest even, arithmetic rounds once, NaN stays NaN."""

import pytest
import torch

from kernels.cuda import RawKernel

TYPES = {
    torch.float16: ("cuda_fp16.h", "half", "half2", "__float2half_rn", "__half2float"),
    torch.bfloat16: ("cuda_bf16.h", "__nv_bfloat16", "__nv_bfloat162", "__float2bfloat16_rn", "__bfloat162float"),
}
DTYPES = pytest.mark.parametrize("dtype", list(TYPES), ids=str)


def same(actual, expected):
    """Equal bit for bit, where any NaN equals any other."""
    nan = expected.isnan()
    assert torch.equal(actual.isnan(), nan)
    bits = torch.int16 if actual.dtype.itemsize == 2 else torch.int32
    wrong = (actual.view(bits) != expected.view(bits)) & ~nan
    assert not wrong.any(), (actual[wrong][:5], expected[wrong][:5])


def every_value(dtype, device):
    return torch.arange(-(2**15), 2**15, dtype=torch.int16, device=device).view(dtype)


def run(dtype, device, body, *tensors):
    """Runs `body` once for each element i of the tensors, named a, b, c…, of type T or float."""
    header, t, t2, to, back = TYPES[dtype]
    kinds = {dtype: t, torch.float32: "float"}
    parameters = ", ".join(f"{kinds[x.dtype]}* {name}" for x, name in zip(tensors, "abcdef", strict=False))
    code = f"""
    #include <{header}>
    typedef {t} T; typedef {t2} T2;
    #define TO {to}
    #define BACK {back}
    __global__ void run({parameters}, int n) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) {{ {body} }}
    }}"""
    n = tensors[0].numel()
    RawKernel(code, "run")(((n + 255) // 256,), (256,), (*tensors, n))


@DTYPES
def test_conversion_to_float_of_every_value(device, dtype):
    x = every_value(dtype, device)
    out = torch.empty(x.shape, device=device)
    run(dtype, device, "b[i] = BACK(a[i]);", x, out)
    same(out, x.float())


@DTYPES
def test_conversion_from_float_rounds_to_nearest_even(device, dtype):
    exact = every_value(dtype, device).float()
    exact = exact[exact.isfinite()]
    bits = exact.view(torch.int32)
    half_way = 1 << (12 if dtype == torch.float16 else 15)  # half a unit in the last place of a normal number
    candidates = torch.cat([bits + d for d in (0, half_way - 1, half_way, half_way + 1)]).view(torch.float32)
    generator = torch.Generator().manual_seed(0)
    anything = torch.randint(-(2**31), 2**31, (200_000,), generator=generator).int().view(torch.float32).to(device)
    edges = torch.tensor(
        [65504, 65519.99, 65520, 3.4e38, float("inf"), float("nan"), -0.0, 2**-24, 2**-25, 2**-25 * 1.01]
    )
    x = torch.cat([candidates, anything, edges.to(device)])
    out = torch.empty(x.shape, dtype=dtype, device=device)
    run(dtype, device, "b[i] = TO(a[i]);", x, out)
    same(out, x.to(dtype))
    run(dtype, device, "b[i] = T(a[i]);", x, out)
    same(out, x.to(dtype))


@DTYPES
def test_arithmetic(device, dtype):
    x = every_value(dtype, device)
    y = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(1)).to(device)]
    out = torch.empty_like(x)
    for operator, expected in (
        ("+", x.double() + y.double()),
        ("-", x.double() - y.double()),
        ("*", x.double() * y.double()),
        ("/", x.double() / y.double()),
    ):
        if operator == "/" and device == "cuda":
            continue  # a GPU's half division is within two units, not correctly rounded
        run(dtype, device, f"c[i] = a[i] {operator} b[i];", x, y, out)
        # One rounding: the float that a double of these is rounded to has bits to spare.
        same(out, expected.float().to(dtype))


@DTYPES
def test_fma_rounds_once(device, dtype):
    # 1 + 2^-k squared is half-way between two values up to its last bit; a tiny addend decides.
    bits = 10 if dtype == torch.float16 else 7
    a = torch.tensor([1 + 2.0 ** -(bits // 2 + 1)] * 3 + [3.0], device=device).to(dtype)
    b = torch.tensor([1 + 2.0 ** -(bits - bits // 2)] * 3 + [float("nan")], device=device).to(dtype)
    tiny = 2.0**-24 if dtype == torch.float16 else 2.0**-120
    c = torch.tensor([tiny, 0.0, -tiny, 1.0], device=device).to(dtype)
    out = torch.empty_like(a)
    run(dtype, device, "d[i] = __hfma(a[i], b[i], c[i]);", a, b, c, out)
    from fractions import Fraction

    for i in range(3):
        exact = Fraction(a[i].item()) * Fraction(b[i].item()) + Fraction(c[i].item())
        unit = Fraction(1, 2**bits)
        below = exact // unit * unit
        remainder = exact - below
        up = remainder > unit / 2 or (remainder == unit / 2 and below / unit % 2 == 1)
        assert Fraction(out[i].item()) == below + (unit if up else 0), i
    assert out[3].isnan()


@DTYPES
def test_maximum_and_comparisons_with_nan(device, dtype):
    nan = float("nan")
    a = torch.tensor([1.0, nan, 2.0, nan, -0.0], device=device).to(dtype)
    b = torch.tensor([2.0, 1.0, nan, nan, 0.0], device=device).to(dtype)
    out = torch.empty_like(a)
    run(dtype, device, "c[i] = __hmax(a[i], b[i]);", a, b, out)
    same(out[:4], torch.tensor([2.0, 1.0, 2.0, nan], device=device).to(dtype))
    flags = torch.empty(5, device=device)
    run(
        dtype,
        device,
        "c[i] = (a[i] < b[i]) + 2 * (a[i] == b[i]) + 4 * (a[i] != b[i]) + 8 * __hisnan(a[i]);",
        a,
        b,
        flags,
    )
    assert flags.tolist() == [5, 12, 4, 12, 2]


@DTYPES
def test_pairs_and_functions(device, dtype):
    x = torch.randn(1024, generator=torch.Generator().manual_seed(2)).to(device).abs().add(0.1).to(dtype)
    out = torch.empty_like(x)
    body = "if (i % 2 == 0) { T2 v = *(T2*)(a + i); *(T2*)(b + i) = __hfma2(v, v, h2sqrt(v)); }"
    run(dtype, device, body, x, out)
    root = x.float().sqrt().to(dtype)
    same(out, (x.double() * x.double() + root.double()).to(dtype))
    run(dtype, device, "b[i] = hexp(a[i]);", x, out)
    torch.testing.assert_close(out, x.float().exp().to(dtype), rtol=2**-7 if dtype == torch.bfloat16 else 2**-9, atol=0)


@DTYPES
def test_atomic_add(device, dtype):
    x, total = torch.full((1024,), 0.125, device=device).to(dtype), torch.zeros(1, device=device).to(dtype)
    run(dtype, device, "atomicAdd(b, a[i]);", x[:256], total)
    assert total.item() == 32
