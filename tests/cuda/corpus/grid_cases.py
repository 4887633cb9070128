"""Stencils, convolutions and pictures."""

import numpy as np
import torch
from torch import arange, randint, randn, zeros
from torch.nn import functional as F

from corpus.case import Case, blank

LOW, HIGH = (np.array(v, [("x", "f8"), ("y", "f8")])[()] for v in ((-2.0, -1.25), (0.5, 1.25)))
CONV_SHAPE = np.array((2, 3, 11, 13, 4, 3, 2, 1, 6, 7), ",".join(["i4"] * 10))[()]
DIMS = np.array((21, 13, 7), "i4,i4,i4")[()]


def stencil(x):
    weights = torch.tensor([0.03, 0.07, 0.15, 0.5, 0.15, 0.07, 0.03]).double()
    return {"out": F.conv1d(x[None, None], weights[None, None], padding=3)[0, 0]}


def heat(x):
    laplacian = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]
    y = x.clone()
    y[1:-1, 1:-1] += 0.2 * laplacian
    return {"out": y}


def laplacian(u):
    weights = zeros(3, 3, 3).double()
    for at in ((0, 1, 1), (2, 1, 1), (1, 0, 1), (1, 2, 1), (1, 1, 0), (1, 1, 2)):
        weights[at] = 1
    weights[1, 1, 1] = -6
    return {"out": F.conv3d(u[None, None], weights[None, None], padding=1)[0, 0] / 0.25}


def life(world):
    around = sum(world.roll((i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - world
    return {"next": ((around == 3) | ((around == 2) & (world == 1))).byte()}


def mask_filter(x):
    weights = torch.tensor([0.02, 0.06, 0.12, 0.18, 0.24, 0.18, 0.12, 0.06, 0.02]).double()
    return {"out": F.conv1d(x[None, None], weights[None, None], padding=4)[0, 0]}


def pooled(x):
    y, where = F.max_pool2d(x, 2, return_indices=True)
    return {"y": y, "where": (where + arange(5)[:, None, None] * 22 * 31).int()}


def grey(image):
    r, g, b = image.int().unbind(2)
    return {"out": ((77 * r + 151 * g + 28 * b) >> 8).byte()}


def blurred(image):
    ones = torch.ones(1, 1, 5, 5).double()
    total = F.conv2d(image[None, None].double(), ones, padding=2)
    count = F.conv2d(torch.ones_like(total), ones, padding=2)
    return {"out": (total / count)[0, 0].floor().byte()}


def edges(image):
    padded = F.pad(image[None, None].double(), (1, 1, 1, 1), mode="replicate")
    kernel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]).double()
    gradients = F.conv2d(padded, torch.stack([kernel, kernel.T])[:, None])[0]
    return {"out": torch.hypot(*gradients)}


CASES = (
    Case(
        "stencil.cu",
        "stencil_1d",
        lambda: {"x": randn(500), "out": blank(500), "n": 500},
        stencil,
        grid=(4,),
        block=(128,),
    ),
    Case(
        "stencil.cu",
        "heat_step",
        lambda: {"x": randn(29, 45).double(), "out": blank(29, 45, dtype=torch.float64), "nx": 45, "ny": 29, "a": 0.2},
        heat,
        grid=(3, 4),
        block=(16, 8),
    ),
    Case(
        "stencil.cu",
        "laplacian_3d<16, 8>",
        lambda: {"u": randn(7, 13, 21), "out": blank(7, 13, 21), "dims": DIMS, "h2": np.float32(0.25)},
        laplacian,
        grid=(2, 2),
        block=(16, 8),
    ),
    Case(
        "stencil.cu",
        "life",
        lambda: {"world": randint(0, 2, (37, 53)).byte(), "next": blank(37, 53, dtype=torch.uint8), "w": 53, "h": 37},
        life,
        grid=(3,),
    ),
    Case(
        "convolution.cu",
        "convolution_1D_tiled",
        lambda: {"x": randn(301), "out": blank(301), "mask": 9, "n": 301},
        mask_filter,
        grid=(5,),
        block=(64,),
    ),
    Case(
        "convolution.cu",
        "conv2d_direct",
        lambda: (
            {"x": randn(2, 3, 11, 13), "w": randn(4, 3, 3, 3), "b": randn(4), "y": blank(2, 4, 6, 7)}
            | {"shape": CONV_SHAPE}
        ),
        lambda x, w, b: {"y": F.conv2d(x, w, b, stride=2, padding=1)},
        block=(128,),
        grid=(2,),
    ),
    Case(
        "convolution.cu",
        "depthwise_tiled<5>",
        lambda: {"x": randn(3, 21, 37), "w": randn(3, 5, 5), "y": blank(3, 21, 37), "h": 21, "width": 37},
        lambda x, w: {"y": F.conv2d(x, w[:, None], padding=2, groups=3)},
        grid=(3, 3, 3),
        block=(16, 8),
        shared_mem=(20 * 12 + 25) * 4,
    ),
    Case(
        "convolution.cu",
        "im2col",
        lambda: {"x": randn(4, 9, 11), "out": blank(36, 99), "c": 4, "h": 9, "w": 11, "k": 3, "pad": 1},
        lambda x: {"out": F.unfold(x[None], 3, padding=1)[0]},
        grid=(7,),
        block=(64,),
    ),
    Case(
        "convolution.cu",
        "max_pool2d",
        lambda: (
            {"x": randn(5, 22, 31), "y": blank(5, 11, 15), "where": blank(5, 11, 15, dtype=torch.int32)}
            | {"h": 22, "w": 31}
        ),
        pooled,
        grid=(11, 5),
        block=(32,),
    ),
    Case(
        "images.cu",
        "colorToGreyscaleConversion",
        lambda: {"out": zeros(37, 53).byte(), "image": randint(0, 256, (37, 53, 3)).byte(), "w": 53, "h": 37},
        grey,
        grid=(4, 3),
        block=(16, 16),
    ),
    Case(
        "images.cu",
        "invert_rgba",
        lambda: {"x": randint(0, 256, (501, 4)).byte(), "out": zeros(501, 4).byte(), "n": 501},
        lambda x: {"out": torch.cat([255 - x[:, :3], x[:, 3:]], 1)},
        grid=(4,),
        block=(128,),
    ),
    Case(
        "images.cu",
        "blurKernel",
        lambda: {"image": randint(0, 256, (29, 43)).byte(), "out": zeros(29, 43).byte(), "w": 43, "h": 29},
        blurred,
        grid=(6, 4),
        block=(8, 8),
        options=("-DBLUR_SIZE=2",),
    ),
    Case(
        "images.cu",
        "sobel<32, 4>",
        lambda: {"image": randint(0, 256, (30, 70)).byte(), "out": blank(30, 70), "w": 70, "h": 30},
        edges,
        grid=(3, 8),
        block=(32, 4),
    ),
    Case(
        "images.cu",
        "resize_bilinear",
        lambda: {"x": randn(13, 17), "y": blank(29, 40), "sh": 13, "sw": 17, "dh": 29, "dw": 40},
        lambda x: {"y": F.interpolate(x[None, None], (29, 40), mode="bilinear")[0, 0]},
        grid=(1, 29),
        block=(64,),
    ),
)
