"""Simulations and numerical methods."""

import numpy as np
import torch
from torch import randn, zeros
from torch.nn import functional as F

from corpus.case import Case, blank

LOW, HIGH = (np.array(v, [("x", "f8"), ("y", "f8")])[()] for v in ((-2.0, -1.25), (0.5, 1.25)))
CONV_SHAPE = np.array((2, 3, 11, 13, 4, 3, 2, 1, 6, 7), ",".join(["i4"] * 10))[()]
DIMS = np.array((21, 13, 7), "i4,i4,i4")[()]


def julia():
    x, y = np.meshgrid(np.arange(101), np.arange(101))
    z = 1.5 * (50 - x) / 50 + 1.5j * (50 - y) / 50
    inside = np.ones(z.shape, bool)
    for _ in range(30):
        z = np.where(inside, z * z + (-0.8 + 0.156j), 0)
        inside &= abs(z) ** 2 <= 1000
    return {"out": torch.from_numpy(inside * np.uint8(255))}


def mandelbrot():
    x, y = np.meshgrid(-2 + 2.5 * np.arange(70) / 70, -1.25 + 2.5 * np.arange(45) / 45)
    c, z, count = x + 1j * y, np.zeros((45, 70), complex), np.zeros((45, 70), np.int32)
    for _ in range(50):
        alive = abs(z) ** 2 <= 4
        count += alive
        z = np.where(alive, z * z + c, z)
    return {"out": torch.from_numpy(count)}


def forces(bodies):
    between = bodies[None, :, :3] - bodies[:, None, :3]
    inverse = (between.square().sum(2) + 0.01).rsqrt()
    acceleration = (between * (bodies[:, 3] * inverse**3)[..., None]).sum(1)
    return {"out": F.pad(acceleration, (0, 1))}


def black_scholes(price, strike, years):
    normal = torch.distributions.Normal(0, 1).cdf
    d1 = ((price / strike).log() + (0.02 + 0.5 * 0.3**2) * years) / (0.3 * years.sqrt())
    d2, discounted = d1 - 0.3 * years.sqrt(), strike * (-0.02 * years).exp()
    return {
        "call": price * normal(d1) - discounted * normal(d2),
        "put": discounted * normal(-d2) - price * normal(-d1),
    }


def jacobi(a, b, x):
    new = (b - a @ x + a.diagonal() * x) / a.diagonal()
    return {"new": new, "change": (new - x).abs().max()[None]}


def special(x):
    columns = (torch.erf(x), x.log1p(), x.expm1(), torch.atan2(x, 1 + x), x ** (1 / 3))
    return {"y": torch.stack([*columns, torch.hypot(x, x * 0 + 3), x.fmod(float(np.float32(0.3))), x**1.5], 1)}


def dominant(*shape):
    return randn(*shape).double() + 9 * torch.eye(shape[-1])


CASES = (
    *(
        Case(
            "debugging.cu",
            "checked_sqrt",
            lambda: (
                {"x": torch.rand(300).double() + 1, "y": blank(300, dtype=torch.float64), "cycles": zeros(5).long()}
                | {"n": 300}
            ),
            lambda x: {"y": x.sqrt(), "cycles": torch.ones(5).long()},
            grid=(5,),
            block=(64,),
            options=options,
        )
        for options in ((), ("-DDEBUG",))
    ),
    Case(
        "simulation.cu",
        "julia_kernel",
        lambda: {"out": blank(101, 101, dtype=torch.uint8) - 1, "dim": 101},
        julia,
        grid=(101, 2),
        block=(64,),
    ),
    Case(
        "simulation.cu",
        "mandelbrot",
        lambda: {"out": blank(45, 70, dtype=torch.int32), "w": 70, "h": 45, "low": LOW, "high": HIGH, "limit": 50},
        mandelbrot,
        grid=(5, 6),
        block=(16, 8),
    ),
    Case(
        "simulation.cu",
        "calculate_forces",
        lambda: {"bodies": torch.rand(150, 4), "out": blank(150, 4), "n": 150, "softening": np.float32(0.01)},
        forces,
        grid=(3,),
        block=(64,),
        shared_mem=1024,
    ),
    Case(
        "simulation.cu",
        "BlackScholesGPU",
        lambda: (
            {"call": blank(500), "put": blank(500), "price": 5 + 25 * torch.rand(500)}
            | {"strike": 1 + 99 * torch.rand(500), "years": 0.25 + 9.75 * torch.rand(500)}
            | {"rate": np.float32(0.02), "volatility": np.float32(0.3), "n": 500}
        ),
        black_scholes,
        grid=(2,),
        block=(128,),
    ),
    Case(
        "simulation.cu",
        "fft_block<7>",
        lambda: {"x": randn(5, 128, 2), "y": blank(5, 128, 2)},
        lambda x: {"y": torch.view_as_real(torch.fft.fft(torch.view_as_complex(x)))},
        grid=(5,),
        block=(64,),
    ),
    Case(
        "numerics.cu",
        "integrate<Quarter>",
        lambda: {"a": 0.0, "b": 1.0, "steps": 100_003, "result": zeros(1).double()},
        lambda: {"result": torch.tensor([np.pi], dtype=torch.float64)},
        grid=(7,),
    ),
    Case(
        "numerics.cu",
        "jacobi",
        lambda: (
            {"a": dominant(67, 67), "b": randn(67).double(), "x": randn(67).double()}
            | {"new": blank(67, dtype=torch.float64), "change": zeros(1).double(), "n": 67}
        ),
        jacobi,
        grid=(2,),
        block=(64,),
    ),
    Case(
        "numerics.cu",
        "special",
        lambda: {"x": torch.rand(300) * 3, "y": blank(300, 8), "n": 300},
        special,
        grid=(3,),
        block=(128,),
        tolerance=2e-5,
    ),
    Case(
        "numerics.cu",
        "solve<13>",
        lambda: {"a": dominant(5, 13, 13), "b": randn(5, 13).double(), "x": blank(5, 13, dtype=torch.float64)},
        lambda a, b: {"x": torch.linalg.solve(a, b)},
        grid=(5,),
        block=(14, 13),
    ),
)
