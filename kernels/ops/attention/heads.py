"""What the kernels of levels 4 and 5 ask of heads, and what they give; those of decoding, too."""

import torch

from kernels import arguments

WIDEST = 256  # features of a head


def fit_kernels(q: torch.Tensor) -> None:
    """Raise a TypeError or ValueError for queries that only levels 1 to 3 compute."""
    arguments.for_kernels("q", q)
    if q.shape[-1] > WIDEST:
        raise ValueError(f"q: got {q.shape[-1]} features a head, expected at most {WIDEST} at levels 4 and 5")


def shapes(q, *others) -> tuple:
    """Of y and lse."""
    return (q.shape, q.dtype), (q.shape[:-1], torch.float32)


def shapes_with_state(q, *others) -> tuple:
    """The same, and what a backward needs of the softmax: of each query its largest q · k and the logarithm l of its sum, for
    the weights exp(scale · (q · k - largest) - l); level 4 has 2 for e.

    lse is scale · largest + l. But an LSE of 1e4 is rounded to a thousandth, and so would all weights be.
    """
    return *shapes(q), ((*q.shape[:-1], 2), torch.float32)
