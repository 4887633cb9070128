"""A language model: proved against its formulas in float64, and its cache against computing everything again."""

import math
from functools import cache
from typing import Any

import torch
from torch import nn

from kernels.measure import race
from kernels.models import LanguageModel, corpus, judged, pretrained
from kernels.models.language import sample
from kernels.models.weights import PATH
from kernels.modules import NaiveAttention
from kernels.records import ModelRecord, check_model_in_float64
from kernels.system import Shown, System

SIZES = (13, 32, 4, 2, 2, 14)  # vocabulary, dim, query heads, key heads, blocks, context
ROUNDS = (
    (9, 4, 0.0),
    (1, 6, 1.0),
    (5, 9, 2.0),
)  # tokens, how many more, and the temperature; the last fill the context


class Formulas(LanguageModel):
    """The same from the formulas: loops over heads and positions, norms and gates an operator at a time."""

    def __init__(self, vocab_size: int, dim: int, num_heads: int, num_kv_heads: int, depth: int, context: int) -> None:
        super().__init__(vocab_size, dim, num_heads, num_kv_heads, depth, context)
        block: Any
        for block in self.blocks:
            attention = NaiveAttention(dim, num_heads, num_kv_heads, causal=True, rotary=True, bias=False)
            attention.load_state_dict(block.attention.state_dict())
            block.attention = attention

    def forward(self, tokens: torch.Tensor, kept: torch.Tensor | None = None, past: int = 0) -> torch.Tensor:
        assert kept is None, "it has no cache"
        x = self.embedding.weight[tokens]
        block: Any
        for block in self.blocks:
            x = x + block.attention(norm(x, block.attention_norm))
            gate, up = (norm(x, block.mlp_norm) @ half.T for half in block.mlp.gate_up.weight.chunk(2))
            x = x + (gate / (1 + torch.exp(-gate)) * up) @ block.mlp.down.weight.T
        return norm(x, self.norm) @ self.embedding.weight.T


def norm(x: torch.Tensor, of: nn.RMSNorm) -> torch.Tensor:
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + (of.eps or 0)) * of.weight


def without_cache(model: nn.Module, tokens: torch.Tensor, count: int, temperature: float, seed: int) -> torch.Tensor:
    """What `generate` returns, by computing all positions again for each token."""
    random = torch.Generator(tokens.device).manual_seed(seed)
    with torch.inference_mode():
        for _ in range(count):
            following = sample(model(tokens)[:, -1], temperature, random)
            tokens = torch.cat([tokens, following[:, None]], dim=1)
    return tokens


def built(kind: type[LanguageModel]) -> LanguageModel:
    torch.manual_seed(0)
    model = kind(*SIZES).eval()
    for parameter in model.parameters():  # logits that differ, and norms that show
        nn.init.normal_(parameter, std=0.4)
    return model


def prompts() -> torch.Tensor:
    return torch.randint(SIZES[0], (3, 9), generator=torch.Generator().manual_seed(0))


@cache
def written(device: str) -> tuple[dict[str, torch.Tensor], list[torch.Tensor]]:
    """The weights of the formulas in float64, and what these write in each of ROUNDS without a cache."""
    twin, tokens = built(Formulas).to(device).double(), prompts().to(device)
    return twin.state_dict(), [
        without_cache(twin, tokens[:, :length], count, temperature, length) for length, count, temperature in ROUNDS
    ]


def check(make: type[LanguageModel], device: str) -> tuple[float, str | None]:
    """Logits and gradients by the formulas; then tokens, drawn and likeliest, by the formulas without a cache."""
    tokens = prompts()
    record = ModelRecord(
        "language_model", lambda seed: built(make), lambda seed: built(Formulas), lambda seed: (tokens,), (), {}
    )
    ratio, failure = check_model_in_float64(record, record.build, device=device)
    if failure:
        return ratio, failure
    weights, expected = written(device)
    model, tokens = built(make).to(device).double(), tokens.to(device)
    model.load_state_dict(weights)
    for (length, count, temperature), tokens_then in zip(ROUNDS, expected, strict=True):
        got = model.generate(tokens[:, :length], count, temperature, seed=length)
        if not torch.equal(got, tokens_then):
            return (
                math.inf,
                f"{length} tokens and {count} more at temperature {temperature}: differ from those without a cache",
            )
    return ratio, None


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


def demo(device: str, quick: bool) -> Shown:
    trained = PATH.exists()
    model = (pretrained() if trained else LanguageModel(len(corpus.symbols()), 64, depth=2)).to(device).eval()
    prompt, count = corpus.encode("A kernel ")[None].to(device), 16 if quick else 60
    written = corpus.decode(model.generate(prompt, count, temperature=0.7)[0])
    ways = {
        "all again": lambda: without_cache(model, prompt, count, 0.7, 0),
        "cache": lambda: model.generate(prompt, count, 0.7),
    }
    raced = race(ways, device, rounds=1)
    _, held = corpus.split()
    bits = judged.bits(model, held[:1, :513], 512, device)
    return Shown(
        f"{'the trained model' if trained else 'a model without weights'} goes on: {' '.join(written.split())}",
        "logits and gradients equal the formulas in float64; with a cache it writes the same tokens as without",
        f"{bits:.2f} bits a character on text held back; {count} tokens are "
        f"{raced.ratio('all again', 'cache').median:.1f} times as fast with the cache",
        raced.plot(),
    )


SYSTEM = System(
    name="language_model",
    summary="a language model that was trained on the course's prose, and generates with a cache",
    modules=("kernels.models.language", "kernels.models.corpus", "kernels.models.judged", "kernels.models.weights"),
    make=LanguageModel,
    proof="its formulas in float64; generation that computes all positions again, token by token",
    check=check,
    wrong={
        "positions after the cache start at 0": CacheFromZero,
        "a position is written over the one before": Overwrites,
        "attention sees ahead": SeesAhead,
        "query heads share the wrong heads of keys": OtherGroups,
        "keys are turned again at each step": KeepsUnturned,
        "blocks share one cache": SharedCache,
        "rows of a batch share one cache": LastRowOnly,
        "logits are multiplied by the temperature": TimesTemperature,
    },
    demo=demo,
    from_torch=("scaled_dot_product_attention", "RMSNorm", "the matrix products", "multinomial"),
)
