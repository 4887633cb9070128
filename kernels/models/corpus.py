"""The course's own prose as a text to learn from: characters, and which of them are held back for validation."""

from functools import cache
from pathlib import Path

import torch

PATH = Path(__file__).with_name("corpus.txt")
PIECE = 8193  # four windows of 2,048 characters, each with the character that follows
VALIDATION = 10  # one piece of so many


@cache
def text() -> str:
    """The whole text, which `book/corpus.py` collected once."""
    return PATH.read_text("utf-8")


@cache
def symbols() -> str:
    """Its characters, sorted; a token is a place among them."""
    return "".join(sorted(set(text())))


def encode(written: str) -> torch.Tensor:
    """The tokens of a text, int64 of shape (S,). ValueError: a character that the corpus does not have."""
    places = {symbol: place for place, symbol in enumerate(symbols())}
    if unknown := sorted(set(written) - set(places)):
        raise ValueError(f"written: got the character {unknown[0]!r}, expected those of corpus.symbols()")
    return torch.tensor([places[symbol] for symbol in written], dtype=torch.int64)


def decode(tokens: torch.Tensor) -> str:
    """The text of tokens of shape (S,)."""
    return "".join(symbols()[token] for token in tokens.tolist())


@cache
def split() -> tuple[torch.Tensor, torch.Tensor]:
    """The tokens to train on, (S,), and those to validate on, (pieces, PIECE): every tenth piece of the text."""
    tokens = encode(text())
    pieces = tokens[: len(tokens) // PIECE * PIECE].view(-1, PIECE)
    held = torch.arange(len(pieces)) % VALIDATION == VALIDATION - 1
    return torch.cat([pieces[~held].flatten(), tokens[pieces.numel() :]]), pieces[held]
