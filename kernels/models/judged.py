"""What a language model has learnt: bits a character of held-back text, beside n-grams, and whether it copies what it saw."""

import math
from collections import defaultdict
from collections.abc import Callable

import torch
import torch.nn.functional as F

Predict = Callable[[torch.Tensor], torch.Tensor]
"""From tokens, (B, S), to logits, (B, S, vocab_size)."""


@torch.inference_mode()
def bits(model: Predict, pieces: torch.Tensor, window: int, device: str = "cpu") -> float:
    """Mean bits a character of held-back text in windows of `window` positions, each of which begins without a context.

    pieces: (N, S) int64; a window's characters and the one that follows are predicted as far as whole windows go.
    """
    count = (pieces.shape[1] - 1) // window
    inputs = pieces[:, : count * window].reshape(-1, window)
    targets = pieces[:, 1 : count * window + 1].reshape(-1, window)
    total = 0.0
    for some, next_ones in zip(inputs.split(16), targets.split(16), strict=True):
        logits = model(some.to(device)).float().flatten(0, 1)
        total += float(F.cross_entropy(logits, next_ones.flatten().to(device), reduction="sum"))
    return total / inputs.numel() / math.log(2)


def repeated(count: int, length: int, vocab_size: int, seed: int = 0) -> torch.Tensor:
    """Random sequences, each written twice: (count, 2 · length) int64. The second half can be known, the first cannot."""
    random = torch.Generator().manual_seed(seed)
    return torch.randint(vocab_size, (count, length), generator=random).repeat(1, 2)


@torch.inference_mode()
def induction(model: Predict, sequences: torch.Tensor, device: str = "cpu") -> tuple[float, float]:
    """The share of the second halves that is predicted, and the mean bits of each character there, from the second one on:
    Olsson et al., "In-context Learning and Induction Heads" (2022). sequences: (B, 2 · length), as `repeated` makes them."""
    length = sequences.shape[1] // 2
    logits, targets = model(sequences[:, :-1].to(device))[:, length:].float(), sequences[:, length + 1 :].to(device)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    return float((logits.argmax(-1) == targets).float().mean()), float(loss) / math.log(2)


def n_gram_bits(train: torch.Tensor, pieces: torch.Tensor, order: int) -> float:
    """Mean bits a character of the pieces, from up to `order` characters before it, counted in the text to train on
    and interpolated: Witten and Bell, "The Zero-Frequency Problem" (1991), method C."""
    counts: list[dict] = [defaultdict(lambda: defaultdict(int)) for _ in range(order + 1)]
    tokens = train.tolist()
    for length in range(order + 1):
        for end in range(length, len(tokens)):
            counts[length][tuple(tokens[end - length : end])][tokens[end]] += 1
    vocab_size, total = max(int(train.max()), int(pieces.max())) + 1, 0.0
    sums = [{context: sum(seen.values()) for context, seen in one.items()} for one in counts]
    for piece in pieces.tolist():
        for end in range(1, len(piece)):
            probability = 1 / vocab_size
            for length in range(min(order, end) + 1):
                context = tuple(piece[end - length : end])
                if (seen := counts[length].get(context)) is None:
                    break
                kinds = len(seen)
                probability = (seen.get(piece[end], 0) + kinds * probability) / (sums[length][context] + kinds)
            total -= math.log2(probability)
    return total / (pieces.numel() - len(pieces))
