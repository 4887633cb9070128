"""Deliberately wrong embeddings, which the check must reject. "gradient-…" have right outputs."""

from functools import partial

import torch

from kernels.ops.embedding import cuda
from kernels.ops.embedding.native import SIGNATURE, embedding, embedding_backward
from kernels.wrong import edited, variant


def next_row(index, weight, padding_idx):
    return embedding((index + 1) % len(weight), weight, padding_idx)


def narrow_index(index, weight, padding_idx):
    return embedding(index.to(torch.int8).long() % len(weight), weight, padding_idx)


def zero_padding(index, weight, padding_idx):
    y = embedding(index, weight, padding_idx)
    return y if padding_idx is None else y.masked_fill((index == padding_idx).unsqueeze(-1), 0)


def overwritten(dy, index, weight, padding_idx):
    if padding_idx is not None:
        dy = dy.masked_fill((index == padding_idx).unsqueeze(-1), 0)
    sums = torch.zeros_like(weight, memory_format=torch.contiguous_format)
    for token, row in enumerate(index.reshape(-1).tolist()):
        sums[row] = dy.reshape(index.numel(), weight.shape[1])[token]
    return sums


def with_padding(dy, index, weight, padding_idx):
    return embedding_backward(dy, index, weight, None)


def by_frequency(dy, index, weight, padding_idx):
    counts = torch.bincount(index.reshape(-1), minlength=len(weight)).clamp(min=1)
    return (embedding_backward(dy, index, weight, padding_idx).float() / counts[:, None]).to(weight.dtype)


wrong = partial(variant, SIGNATURE, __file__, forward=embedding)
PACKED = partial(cuda.gather, True)
FIRST_BLOCK = edited(PACKED, "held[l] = from[j]", "held[l] = from[threadIdx.x]")
BROKEN_CHAIN = edited(cuda.collect, "if (!before && previous >= 0) next[previous] = t;", "")
UNORDERED = edited(cuda.collect, "if (mine && !after) last[own] = t;", "if (mine && !before) last[own] = t;")
VARIANTS = (
    wrong(1, "next-row", "counts the rows from one", forward=next_row),
    wrong(1, "narrow-index", "keeps the index in 8 bits", forward=narrow_index),
    wrong(1, "zero-padding", "gives the padding zeros, not its row", forward=zero_padding),
    wrong(5, "first-columns", "copies the first columns again and again", forward=FIRST_BLOCK),
    wrong(1, "gradient-overwritten", "a row has the gradient of its last token alone", backward=overwritten),
    wrong(1, "gradient-of-padding", "the padding has a gradient", backward=with_padding),
    wrong(1, "gradient-by-frequency", "divides by how often a row comes", backward=by_frequency),
    wrong(5, "gradient-broken-chain", "a chain ends with its first 32 tokens", backward=BROKEN_CHAIN),
    wrong(5, "gradient-short-cut", "a chain goes on from the first of 32 tokens, not the last", backward=UNORDERED),
)
