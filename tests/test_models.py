"""Models: what they refuse, and that the language model's recorder runs from end to end."""

import json

import pytest
import torch

from book.recorders import language_model
from kernels.models import LanguageModel, corpus, judged, pretrained


def tiny(**sizes: int) -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(**{"vocab_size": 11, "dim": 16, "depth": 1, "context": 12} | sizes).eval()


def test_a_text_comes_back_from_its_tokens():
    assert corpus.decode(corpus.encode("a kernel")) == "a kernel"
    with pytest.raises(ValueError, match="^written: got the character '☃'"):
        corpus.encode("snow ☃")


def test_what_is_held_back_is_not_trained_on():
    text, held = corpus.split()
    assert len(text) + held.numel() == len(corpus.text())
    train = corpus.decode(text)
    for piece in held:
        assert corpus.decode(piece) in corpus.text() and corpus.decode(piece[:500]) not in train


def test_the_same_seed_gives_the_same_tokens():
    tokens = torch.tensor([[1, 2], [3, 4]])
    first, again, other = (tiny().generate(tokens, 10, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(first[:, :2], tokens) and first.shape == (2, 12)
    assert torch.equal(tiny().generate(tokens, 0), tokens)


@pytest.mark.parametrize(
    ("tokens", "arguments", "said"),
    [
        (torch.zeros(1, 4, dtype=torch.int64), {"count": 9}, r"count: got 9, expected 0 to 8"),
        (torch.zeros(1, 4, dtype=torch.int64), {"count": -1}, r"count: got -1, expected 0 to 8"),
        (torch.zeros(4, dtype=torch.int64), {"count": 1}, r"tokens: got shape \(4,\), expected \(B, S\)"),
        (torch.zeros(1, 0, dtype=torch.int64), {"count": 1}, r"tokens: got shape \(1, 0\)"),
        (torch.zeros(1, 4, dtype=torch.int64), {"count": 1, "temperature": -1.0}, r"temperature: got -1.0, expected 0"),
    ],
)
def test_what_cannot_be_generated_is_refused(tokens, arguments, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        tiny().generate(tokens, **arguments)


def test_more_than_the_context_is_refused():
    with pytest.raises(ValueError, match=r"^tokens: got shape \(1, 13\), expected \(B, S\) of at most 12"):
        tiny()(torch.zeros(1, 13, dtype=torch.int64))
    with pytest.raises(ValueError, match="^num_heads: got 3, expected a divisor of dim, which is 16"):
        tiny(num_heads=3)


def test_absent_weights_say_how_they_are_made(tmp_path):
    with pytest.raises(FileNotFoundError, match="^path: there are no weights at .*recorders.language_model"):
        pretrained(tmp_path / "language.pt")


def test_induction_is_of_what_can_be_known():
    sequences = judged.repeated(4, 8, 50)

    def copier(tokens: torch.Tensor) -> torch.Tensor:  # the next token is the one 7 places back
        return 50 * torch.nn.functional.one_hot(tokens.roll(7, 1), 50).float()

    assert judged.induction(copier, sequences) == (1.0, pytest.approx(0, abs=1e-3))
    assert judged.induction(lambda tokens: torch.zeros(*tokens.shape, 50), sequences)[1] == pytest.approx(
        5.644, abs=1e-3
    )


def test_n_grams_know_a_text_that_repeats_itself():
    pattern = torch.tensor([0, 1, 2, 1] * 50)
    assert judged.n_gram_bits(pattern, pattern[None, :41], 2) < 0.1
    assert 0.5 < judged.n_gram_bits(pattern, pattern[None, :41], 1) < 0.7  # after a 1 comes 0 or 2
    assert judged.n_gram_bits(pattern, pattern[None, :41], 0) == pytest.approx(1.5, abs=0.1)


def test_the_recorder_trains_judges_and_stores(tmp_path, monkeypatch):
    monkeypatch.setattr(
        corpus, "split", lambda: (corpus.encode(corpus.text()[:4000]), corpus.encode(corpus.text()[:129])[None])
    )
    language_model.main(tmp_path, seconds=1, quick=True)
    stored = json.loads(next(tmp_path.glob("*.json")).read_text())
    assert stored["training"]["parameters"] == sum(p.numel() for p in pretrained(tmp_path / "language.pt").parameters())
    assert {row["measure"] for row in stored["rows"]} == {"bits a character", "induction accuracy"}


def test_a_batch_has_text_and_copies_and_asks_for_no_guess():
    tokens, targets = next(language_model.batches(64, 4))
    assert torch.equal(tokens[:1, 1:], targets[:1, :-1])
    for row, expected in zip(tokens[1:], targets[1:], strict=True):
        known = int((expected == -100).sum())  # the first period, and the first character of the second
        assert 8 <= known <= 32 and torch.equal(row[1:][known:], expected[known:-1])
        assert torch.equal(row[known:], row[: len(row) - known])
