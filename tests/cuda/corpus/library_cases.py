"""Tables filled by the host, and the style of tensor libraries."""

import zlib

import numpy as np
import torch
from torch import randint, randn

from corpus.case import Case, blank

SIZE = np.array((11, 7, 5), "u4,u4,u4")[()]
MUL_ADD = np.array((0.5,), [("scale", "f4")])[()]
COEFFICIENTS = (0.5, -1.0, 0.25, 2.0, -0.125)


def spheres():
    s = torch.rand(7, 7)
    s[:, 3] = s[:, 3] * 12 + 6
    s[:, 4:] = s[:, 4:] * 60 - 30
    return s


def trace(module, a):
    table = module.get_global("s", a["image"].device)
    table.view(torch.float32).copy_(a["spheres"].view(-1))
    module.get_function("ray_trace")((6, 11), (8, 4), (a["image"], 45, 41))


def traced(spheres):
    y, x = torch.meshgrid(torch.arange(41) - 20, torch.arange(45) - 22, indexing="ij")
    r, b, g, radius, *centre = spheres.T[:, :, None, None]
    inside = radius**2 - (x - centre[0]) ** 2 - (y - centre[1]) ** 2
    depth = inside.clamp(min=0).sqrt()
    nearest = torch.where(inside > 0, depth + centre[2], -torch.inf).argmax(0, keepdim=True)
    shade = (depth / radius).gather(0, nearest)
    image = torch.stack([(colour.expand_as(depth).gather(0, nearest) * shade)[0] for colour in (r, g, b)], 2)
    return {"image": image * (inside > 0).any(0)[..., None]}


def evaluate(module, a):
    device = a["x"].device
    table = module.get_global("coefficients", device).view(torch.float64)
    table[: len(COEFFICIENTS)] = torch.tensor(COEFFICIENTS, dtype=torch.float64)
    module.get_global("order", device).view(torch.int32).fill_(len(COEFFICIENTS) - 1)
    module.get_function("polynomial")((2,), (128,), (a["x"], a["y"], a["n"]))


def checksums(module, a):
    module.get_function("make_crc_table")((1,), (256,), (0xEDB88320, a["data"]))
    module.get_function("crc32_rows")((2,), (32,), (a["data"], a["crc"], 45, 33))


def crc32(data):
    values = [zlib.crc32(bytes(row)) for row in data.tolist()]
    return {"crc": torch.from_numpy(np.array(values, np.uint32).view(np.int32))}


def accessor(tensor):
    """A tensor as the accessor's fields: pointer, sizes, strides."""
    return np.array((tensor.data_ptr(), tensor.shape, tensor.stride()), "i8,2i8,2i8")[()]


def select(module, a):
    args = (accessor(a["src"].T), accessor(a["dst"]), a["index"])
    module.get_function("index_select<float>")((3,), (128,), args)


CASES = (
    Case("constants.cu", "ray_trace", lambda: {"image": blank(41, 45, 3), "spheres": spheres()}, traced, launch=trace),
    Case(
        "constants.cu",
        "polynomial",
        lambda: {"x": randn(301).double(), "y": blank(301, dtype=torch.float64), "n": 301},
        lambda x: {"y": sum(c * x**p for p, c in enumerate(COEFFICIENTS))},
        launch=evaluate,
    ),
    Case(
        "constants.cu",
        ("make_crc_table", "crc32_rows"),
        lambda: {"data": randint(0, 256, (45, 33)).byte(), "crc": blank(45, dtype=torch.int32)},
        crc32,
        launch=checksums,
    ),
    Case(
        "library_style.cu",
        "vectorized_elementwise_kernel<4, float, detail::MulAdd<float>>",
        lambda: {"n": 1900, "f": MUL_ADD, "out": blank(1900), "a": randn(1900), "b": randn(1900)},
        lambda a, b: {"out": a / 2 + b},
        grid=(4,),
        block=(128,),
    ),
    Case(
        "library_style.cu",
        "index_select<float>",
        lambda: {"src": randn(9, 45), "dst": blank(30, 9), "index": randint(0, 45, (30,))},
        lambda src, index: {"dst": src.T[index]},
        launch=select,
    ),
    Case(
        "library_style.cu",
        "cross_field",
        lambda: {"u": randn(3, 5, 7, 11), "v": randn(3, 5, 7, 11), "w": blank(3, 5, 7, 11), "size": SIZE},
        lambda u, v: {"w": torch.linalg.cross(u, v, dim=0)},
        grid=(2, 2, 3),
        block=(8, 4, 2),
    ),
    Case(
        "library_style.cu",
        "large_histogram",
        lambda: {
            "values": randint(0, 20_000, (9000,)).int(),
            "n": 9000,
            "counts": blank(20_000, dtype=torch.int32),
            "bins": 20_000,
        },
        lambda values: {"counts": torch.bincount(values, minlength=20_000).int()},
        shared_mem=80_000,
    ),
)
