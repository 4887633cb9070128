"""A language model of pre-norm blocks, and how it generates: with the keys and values of all positions kept.

The block is Llama's: Touvron et al., "LLaMA" (2023), section 2.2, with grouped queries.
"""

import torch
import torch.nn.functional as F
from torch import nn

from kernels.arguments import positive
from kernels.modules import GroupedQueryAttention, SwiGLU


class CachedAttention(GroupedQueryAttention):
    """Causal attention that writes its keys and values into a buffer that was allocated for all positions."""

    def __init__(self, dim: int, num_heads: int, num_kv_heads: int) -> None:
        super().__init__(dim, num_heads, num_kv_heads, causal=True, rotary=True, bias=False)

    def onward(self, x: torch.Tensor, kept: torch.Tensor, past: int) -> torch.Tensor:
        """The output for positions from `past` on. `kept` is 2×B×H×S×D: keys and values; it is updated in place."""
        assert self.rotary is not None
        q, k, v = self.heads(x)
        end = past + x.shape[1]
        kept[0, :, :, past:end], kept[1, :, :, past:end] = self.rotary(k, past), v
        y = self.attend(self.rotary(q, past), kept[0, :, :, :end], kept[1, :, :, :end], past)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    """x + attention(norm(x)), then that + swiglu(norm(that)); in training some of what is added is dropped."""

    def __init__(self, dim: int, num_heads: int, num_kv_heads: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.RMSNorm(dim, 1e-6), nn.RMSNorm(dim, 1e-6)
        self.attention = CachedAttention(dim, num_heads, num_kv_heads)
        self.mlp = SwiGLU(dim, 32 * max(1, round(dim / 12)))  # about 8/3 · dim, in multiples that tensor cores like
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, kept: torch.Tensor | None = None, past: int = 0) -> torch.Tensor:
        h = self.attention_norm(x)
        x = x + self.dropout(self.attention(h) if kept is None else self.attention.onward(h, kept, past))
        return x + self.dropout(self.mlp(self.mlp_norm(x)))


class LanguageModel(nn.Module):
    """Predicts the next token at each position.

    Args:
        vocab_size: how many tokens there are; token numbers are below it.
        dim: features of a position, a multiple of num_heads.
        num_heads, num_kv_heads: of the attention.
        depth: blocks.
        context: the most positions of a sequence.
        dropout: share of what a block adds that is dropped in training.

    Shapes: tokens are (B, S) int64; logits are (B, S, vocab_size). The embedding is also the last layer's weight.

    ValueError: numbers that do not divide; tokens of another shape, or more than context.
    """

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        num_heads: int = 4,
        num_kv_heads: int = 2,
        depth: int = 5,
        context: int = 2048,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        positive(vocab_size=vocab_size, dim=dim, num_heads=num_heads, depth=depth, context=context)
        self.context, self.num_kv_heads, self.head_dim = context, num_kv_heads, dim // num_heads
        self.embedding = nn.Embedding(vocab_size, dim)
        self.blocks = nn.ModuleList(Block(dim, num_heads, num_kv_heads, dropout) for _ in range(depth))
        self.norm = nn.RMSNorm(dim, 1e-6)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:  # what is added to the residual stream begins smaller, the deeper the more: GPT-2
                added = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * depth) ** 0.5 if added else 0.02)

    def forward(self, tokens: torch.Tensor, kept: torch.Tensor | None = None, past: int = 0) -> torch.Tensor:
        """The logits; with `kept`, which `room` makes, for tokens that come after `past` others."""
        if tokens.dim() != 2 or past + tokens.shape[1] > self.context:
            before = f" after {past} others" if past else ""
            raise ValueError(
                f"tokens: got shape {tuple(tokens.shape)}{before}, expected (B, S) of at most {self.context} positions"
            )
        x = self.embedding(tokens)
        for number, block in enumerate(self.blocks):
            x = block(x, None if kept is None else kept[number], past)
        return F.linear(self.norm(x), self.embedding.weight)

    def room(self, batch: int, positions: int) -> torch.Tensor:
        """Space for the keys and values of so many positions: depth×2×B×H×S×D, of the weights' dtype and device."""
        shape = (len(self.blocks), 2, batch, self.num_kv_heads, positions, self.head_dim)
        return self.embedding.weight.new_empty(shape)

    @torch.inference_mode()
    def generate(self, tokens: torch.Tensor, count: int, temperature: float = 1.0, seed: int = 0) -> torch.Tensor:
        """The tokens, and `count` more after each row. Each is computed once: keys and values are kept.

        Args:
            tokens: (B, S) int64, S at least 1.
            count: S + count is at most the context.
            temperature: the logits are divided by it; 0 takes the likeliest token.
            seed: the same tokens for the same seed, on one device.

        Raises:
            ValueError: another shape, a negative count or temperature, or more positions than the context.
        """
        if tokens.dim() != 2 or not tokens.shape[1]:
            raise ValueError(f"tokens: got shape {tuple(tokens.shape)}, expected (B, S) with S of at least 1")
        batch, length = tokens.shape
        if not 0 <= count <= self.context - length:
            raise ValueError(f"count: got {count}, expected 0 to {self.context - length}, what the context leaves")
        if temperature < 0:
            raise ValueError(f"temperature: got {temperature}, expected 0 or more")
        random = torch.Generator(tokens.device).manual_seed(seed)
        kept = self.room(batch, length + count)
        found = torch.cat([tokens, tokens.new_empty(batch, count)], dim=1)
        past = 0
        for end in range(length, length + count):
            found[:, end] = sample(self(found[:, past:end], kept, past)[:, -1], temperature, random)
            past = end
        return found


def sample(logits: torch.Tensor, temperature: float, random: torch.Generator) -> torch.Tensor:
    """A token for each row of logits, (B, vocab_size); the likeliest at a temperature of 0."""
    if temperature == 0:
        return logits.argmax(-1)
    return torch.multinomial((logits.float() / temperature).softmax(-1), 1, generator=random)[:, 0]
