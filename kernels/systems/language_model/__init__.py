"""A language model: proved against its formulas in float64, and its cache against computing everything again."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch
from torch import nn

from kernels.claims import Claim, Number
from kernels.measure import profile_model, race
from kernels.models import LanguageModel, corpus, judged, pretrained
from kernels.models.language import sample
from kernels.models.weights import PATH
from kernels.modules import NaiveAttention
from kernels.records import ModelRecord, check_model_in_float64
from kernels.system import Shown, System
from kernels.systems.language_model import wrong

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


def kept(device: str) -> Mapping[str, Number]:
    """FLOPs of one more token with a cache and without, the bytes of the cache, and the time of 16 tokens after 512."""
    torch.manual_seed(0)
    model, found = LanguageModel(64, 128, depth=2).to(device).eval(), {}
    tokens = torch.randint(64, (1, 2_048), device=device)
    for length in (256, 2_048):
        cache = model.room(1, length).zero_()
        with_cache = profile_model(model, tokens[:, length - 1 : length], cache, length - 1).total("flops")
        again = profile_model(model, tokens[:, :length]).total("flops")
        found[f"FLOPs of token {length:,} without over with"] = Number.exact(again / with_cache, "×")
        found[f"FLOPs of token {length:,} with"] = Number.exact(with_cache / 1e6, "million")
        found[f"cache, {length:,} positions"] = Number.exact(cache.nbytes / 2**20, "MiB")
    ways = {
        "again": lambda: without_cache(model, tokens[:, :512], 16, 0.0, 0),
        "cache": lambda: model.generate(tokens[:, :512], 16, 0.0),
    }
    return found | {"time of 16 tokens without over with": race(ways, device, rounds=2).ratio("again", "cache")}


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
        "positions after the cache start at 0": wrong.CacheFromZero,
        "a position is written over the one before": wrong.Overwrites,
        "attention sees ahead": wrong.SeesAhead,
        "query heads share the wrong heads of keys": wrong.OtherGroups,
        "keys are turned again at each step": wrong.KeepsUnturned,
        "blocks share one cache": wrong.SharedCache,
        "rows of a batch share one cache": wrong.LastRowOnly,
        "logits are multiplied by the temperature": wrong.TimesTemperature,
    },
    demo=demo,
    from_torch=("scaled_dot_product_attention", "RMSNorm", "the matrix products", "multinomial"),
    claims=(
        Claim(
            name="kv-cache",
            text="A key-value (KV) cache eliminates this inefficiency by storing kv pairs derived from the attention layers of "
            "previously processed tokens",
            source="Hugging Face’s Transformers documentation, Caching",
            conditions="“this inefficiency”: products that a model computes over and over for each token",
            verdict="confirmed",
            reason="a token’s products are then those of itself, and attention’s, which grow with the length; without it those "
            "of all positions before. The price is memory for each position, and the reading of it",
            evidence="measured",
            experiment=kept,
        ),
    ),
)
