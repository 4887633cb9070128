"""Language models with the mistakes that people make with a cache, with heads and with a temperature."""

from typing import Any

import torch

from kernels.models import LanguageModel


class CacheFromZero(LanguageModel):
    """Turns what comes after the cache by positions from 0 on."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        block: Any
        for block in self.blocks:
            turn = block.attention.rotary
            block.attention.rotary.forward = lambda x, start=0, turn=turn: type(turn).forward(turn, x, 0)


class Overwrites(LanguageModel):
    """Writes the keys and values of a new position over those of the last one."""

    def forward(self, tokens: torch.Tensor, kept: torch.Tensor | None = None, past: int = 0) -> torch.Tensor:
        return super().forward(tokens, kept, max(past - 1, 0))


class SeesAhead(LanguageModel):
    """Attention is not causal: right for a token at a time, wrong for a prompt."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        block: Any
        for block in self.blocks:
            block.attention.causal = False


class SharedCache(LanguageModel):
    """All blocks write into the first one's part of the cache."""

    def forward(self, tokens: torch.Tensor, kept: torch.Tensor | None = None, past: int = 0) -> torch.Tensor:
        return super().forward(tokens, kept if kept is None else kept[:1].expand_as(kept), past)


class LastRowOnly(LanguageModel):
    """Keeps the last row's keys and values for all rows of the batch."""

    def forward(self, tokens: torch.Tensor, kept: torch.Tensor | None = None, past: int = 0) -> torch.Tensor:
        logits = super().forward(tokens, kept, past)
        if kept is not None:
            kept[:] = kept[:, :, -1:].clone()
        return logits


class TimesTemperature(LanguageModel):
    def generate(self, tokens: torch.Tensor, count: int, temperature: float = 1.0, seed: int = 0) -> torch.Tensor:
        return super().generate(tokens, count, 1 / temperature if temperature else 0.0, seed)


class OtherGroups(LanguageModel):
    """Deals the heads of keys and values out in turns, instead of neighbours sharing one."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        block: Any
        for block in self.blocks:
            attention = block.attention

            def attend(q: torch.Tensor, *rest: Any, one: Any = attention) -> torch.Tensor:
                order = torch.arange(q.shape[1]).view(-1, one.num_kv_heads).T.flatten()
                return type(one).attend(one, q[:, order], *rest)[:, order.argsort()]

            attention.attend = attend


class KeepsUnturned(LanguageModel):
    """Turns the keys of the cache again at each step, by their places in it."""

    def forward(self, tokens: torch.Tensor, kept: torch.Tensor | None = None, past: int = 0) -> torch.Tensor:
        if kept is not None and past:
            block: Any
            for number, block in enumerate(self.blocks):
                kept[number, 0, :, :, :past] = block.attention.rotary(kept[number, 0, :, :, :past])
        return super().forward(tokens, kept, past)
