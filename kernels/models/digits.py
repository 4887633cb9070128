"""Small data that needs no download: scikit-learn's handwritten digits, as images and as a graph; and how a model is fitted.

1,797 images of 8×8 pixels in ten classes, which scikit-learn carries: Alpaydin and Kaynak, "Optical Recognition of Handwritten
Digits" (1998), the part for tests.
"""

from collections.abc import Callable
from functools import cache

import torch
from torch import nn

from kernels.machine import one_thread


@cache
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Images, (1797, 1, 8, 8) float32, and their classes, (1797,) int64.

    Pixels of 0 to 16 are moved and scaled by constants, to a mean of about 0 and a variance of about 1: by what all images have
    in common, those to be tested on would have a part in training.

    ImportError: scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(
            "the digits come with scikit-learn, which is not installed: pip install scikit-learn"
        ) from error
    data = load_digits()
    images = torch.from_numpy(data.images).float()[:, None]
    return (images - 5) / 6, torch.from_numpy(data.target).long()


def split(train: int = 1437, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """The numbers of the images to train on, `train` of them, and of those to test on."""
    drawn = torch.randperm(len(digits()[1]), generator=torch.Generator().manual_seed(seed))
    return drawn[:train], drawn[train:]


def labelled(a_class: int = 7, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """The numbers of so many images of each class, whose classes are known, and of all others."""
    drawn, _ = split(len(digits()[1]), seed)
    targets = nn.functional.one_hot(digits()[1][drawn])
    known = (targets.cumsum(0) * targets).sum(1) <= a_class  # how many of its class came up to this one
    return drawn[known], drawn[~known]


@cache
def neighbours(count: int = 10) -> torch.Tensor:
    """The edges of a graph in which each image is joined with the `count` nearest, both ways: (2, edges) int64, each once.

    Pixels alone decide, no classes; but those of all images, also of those that a network is later tested on. So what it learns
    is transductive: it says nothing about images that were not in the graph.
    """
    pixels = digits()[0].flatten(1)
    nearest = torch.cdist(pixels, pixels).fill_diagonal_(torch.inf).topk(count, largest=False).indices
    one_way = torch.stack([torch.arange(len(pixels)).repeat_interleave(count), nearest.flatten()])
    return torch.cat([one_way, one_way.flip(0)], dim=1).unique(dim=1)


def fit(model: nn.Module, loss: Callable[[], torch.Tensor], steps: int, rate: float = 3e-3) -> None:
    """An ordinary loop: `steps` steps of AdamW on what `loss` returns; the learning rate falls to zero on a half cosine.

    On a CPU in one thread: models as small as these wait for more, and sums are taken in one order on any number of cores.
    """
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    with one_thread():
        model.train()
        for _ in range(steps):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
            schedule.step()
        model.eval()


def fit_images(model: nn.Module, steps: int, seed: int = 0, rate: float = 3e-3, batch: int = 64) -> float:
    """Fit a model of images, (B, 1, 8, 8) → (B, 10), to the digits; the share of the test images that it gets right."""
    device = next(model.parameters()).device
    images, classes = (one.to(device) for one in digits())
    train, test = (one.to(device) for one in split(seed=seed))
    random = torch.Generator().manual_seed(seed)

    def loss() -> torch.Tensor:
        some = train[torch.randint(len(train), (batch,), generator=random).to(device)]
        return nn.functional.cross_entropy(model(images[some]), classes[some])

    fit(model, loss, steps, rate)
    with torch.inference_mode():
        return float((model(images[test]).argmax(-1) == classes[test]).float().mean())
