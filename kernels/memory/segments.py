"""Long sequences in segments: attention over a segment and what is carried of those before it, in memory that does not grow."""

from collections.abc import Callable

import torch
from torch import nn

Attention = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Segmented(nn.Module):
    """Runs attention over one segment after the other; each sees the last `carry` positions before it, without a gradient.

    This is the recurrence of Transformer-XL (Dai et al., 2019, section 3.2): another function than attention to the whole
    sequence, since nothing further back than `carry` positions is seen; `chunked` is the exact one.

    Args:
        attention: (x, context) → output: x (B, S, dim) attends to context (B, C + S, dim), whose last S positions are x itself.
        segment: positions of a segment; the last may have fewer.
        carry: positions that a segment sees of those before it.

    Shapes: x is (B, S, dim), so is the output.

    Raises:
        ValueError: a segment below 1, a carry below 0, an x that is not (B, S, dim).
    """

    def __init__(self, attention: Attention, segment: int, carry: int) -> None:
        super().__init__()
        if segment < 1:
            raise ValueError(f"segment: got {segment}, expected at least 1 position")
        if carry < 0:
            raise ValueError(f"carry: got {carry}, expected at least 0 positions")
        self.attention, self.segment, self.carry = attention, segment, carry

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.ndim != 3:
            raise ValueError(f"x: got shape {tuple(x.shape)}, expected (B, S, dim)")
        carried, outputs = x[:, :0], []
        for part in x.split(self.segment, dim=1):
            context = torch.cat([carried, part], dim=1)
            outputs.append(self.attention(part, context))
            carried = context[:, max(0, context.shape[1] - self.carry) :].detach()
        return torch.cat(outputs, dim=1)


def chunked(attention: Attention, x: torch.Tensor, segment: int) -> torch.Tensor:
    """The same function as attention to all positions before: each segment sees all of them, and gradients go to all.

    Memory for scores is that of a segment of rows; the sequence itself has to be kept.
    """
    parts = [attention(part, x[:, : start + part.shape[1]]) for start, part in _starts(x, segment)]
    return torch.cat(parts, dim=1)


def _starts(x: torch.Tensor, segment: int) -> list[tuple[int, torch.Tensor]]:
    return [(segment * number, part) for number, part in enumerate(x.split(segment, dim=1))]
