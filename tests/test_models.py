"""Models: what they refuse, what they learn, and that the language model's recorder runs from end to end."""

import json
import time

import pytest
import torch

from book.recorders import language_model
from kernels import modules
from kernels.memory import track
from kernels.models import ConvNet, GraphNetwork, LanguageModel, VisionTransformer, corpus, digits, judged, pretrained
from kernels.moe import MixtureOfExperts
from kernels.shapes import Buckets
from kernels.systems import graph as system_of_graphs
from kernels.systems.graph import accuracy


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
    tokens, targets = language_model.batch(128, 8, 64, torch.Generator().manual_seed(0))
    assert torch.equal(tokens[:2, 1:], targets[:2, :-1])
    for row, expected in zip(tokens[2:], targets[2:], strict=True):
        asked = (expected >= 0).nonzero()[:, 0]
        assert len(asked) >= 64 and torch.equal(row[asked[:-1] + 1], expected[asked[:-1]])
        # What is asked for came before, after the same characters.
        periods = [
            p
            for p in range(4, 33)
            if row[asked[0] - p] == row[asked[0]] and row[asked[0] + 1 - p] == expected[asked[0]]
        ]
        assert periods


@pytest.mark.parametrize(
    ("model", "shape", "said"),
    [
        (ConvNet(3, channels=2), (4, 1, 8, 8), r"x: got shape \(4, 1, 8, 8\), expected \(B, 2, H, W\)"),
        (ConvNet(3), (4, 1, 8, 3), r"x: got shape \(4, 1, 8, 3\), expected .* at least 4×4"),
        (VisionTransformer(8, 3), (4, 1, 8, 12), r"x: got shape \(4, 1, 8, 12\), expected \(B, 1, 8, 8\)"),
    ],
)
def test_an_image_of_another_shape_is_refused(model, shape, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        model(torch.zeros(shape))


def test_patches_tile_the_image():
    with pytest.raises(ValueError, match="^image_size: got 10, expected a multiple of patch_size, 4"):
        VisionTransformer(10, 3)


def test_a_graph_of_other_nodes_is_refused():
    network, edges = GraphNetwork(5, 2), torch.tensor([[0, 1], [1, 2]])
    with pytest.raises(ValueError, match=r"^edges: got the nodes 0 to 2, expected 0 to 1"):
        network.adjacency(edges, 2)
    with pytest.raises(ValueError, match=r"^edges: got shape \(2,\), expected \(2, E\)"):
        network.adjacency(edges[0], 3)
    with pytest.raises(ValueError, match=r"^graph: got shape \(3, 3\), expected \(4, 4\), as x has 4 nodes"):
        network(torch.zeros(4, 5), network.adjacency(edges, 3))
    with pytest.raises(ValueError, match=r"^x: got shape \(3, 4\), expected \(N, 5\)"):
        network(torch.zeros(3, 4), network.adjacency(edges, 3))


def test_so_many_of_each_class_are_labelled():
    known, others = digits.labelled(3, seed=1)
    assert torch.equal(digits.digits()[1][known].bincount(), torch.full((10,), 3))
    assert torch.equal(torch.cat([known, others]).sort().values, torch.arange(1797))


def test_no_image_is_both_trained_and_tested_on():
    for learnt, tested in (digits.split(seed=1), digits.labelled(seed=1)):
        assert torch.equal(torch.cat([learnt, tested]).sort().values, torch.arange(1797))


def test_the_graph_is_made_of_pixels_alone(monkeypatch):
    images, classes = digits.digits()
    expected = digits.neighbours()
    digits.neighbours.cache_clear()
    monkeypatch.setattr(digits, "digits", lambda: (images, classes.flip(0)))
    assert torch.equal(digits.neighbours(), expected)


def trained(seed):
    torch.manual_seed(seed)
    model = ConvNet(10, width=2)
    digits.fit_images(model, 5, seed)
    return torch.cat([value.flatten().float() for value in model.state_dict().values()])


def test_a_seed_says_all():
    assert torch.equal(trained(1), trained(1)) and not torch.equal(trained(1), trained(2))


def test_what_is_tested_on_has_no_part_in_training(monkeypatch):
    images, classes = digits.digits()
    tested, unlabelled = digits.split(seed=1)[1], digits.labelled(seed=1)[1]
    expected = trained(1)
    noise, wrong = images.clone(), classes.clone()
    noise[tested], wrong[unlabelled] = 9, (classes[unlabelled] + 1) % 10
    monkeypatch.setattr(digits, "digits", lambda: (noise, classes))
    assert torch.equal(trained(1), expected)
    monkeypatch.setattr(system_of_graphs, "digits", lambda: (images, wrong))
    assert accuracy(GraphNetwork.adjacency(digits.neighbours(), 1797), 20, seed=1) < 0.1


SEEDS = [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]


@pytest.fixture
def fifteen_seconds():
    began = time.process_time()
    yield
    assert time.process_time() - began < 15


@pytest.mark.parametrize("seed", SEEDS)
def test_a_convolutional_network_learns_images(seed, fifteen_seconds):
    torch.manual_seed(seed)
    assert digits.fit_images(ConvNet(10), 250, seed) >= 0.975


@pytest.mark.parametrize("seed", SEEDS)
def test_a_vision_transformer_learns_images(seed, fifteen_seconds):
    torch.manual_seed(seed)
    assert digits.fit_images(VisionTransformer(8, 10), 400, seed) >= 0.95


@pytest.mark.parametrize("seed", SEEDS)
def test_the_graph_helps(seed, fifteen_seconds):
    """Of the images in the graph: it is transductive."""
    edges = digits.neighbours()
    graph, alone = (GraphNetwork.adjacency(some, 1797) for some in (edges, edges[:, :0]))
    with_graph, without = (accuracy(one, 100, seed) for one in (graph, alone))
    assert with_graph >= 0.915 and with_graph - without >= 0.03


SIZES = {
    "dim": lambda: modules.MLP(0),
    "hidden": lambda: modules.SwiGLU(8, hidden=0),
    "num_heads": lambda: modules.MultiHeadAttention(16, 0),
    "num_kv_heads": lambda: modules.GroupedQueryAttention(16, 2, 0),
    "vocab_size": lambda: LanguageModel(0, 16),
    "patch_size": lambda: VisionTransformer(8, 10, patch_size=0),
    "num_classes": lambda: ConvNet(0),
    "node_features": lambda: GraphNetwork(0, 2),
    "experts": lambda: MixtureOfExperts(16, 0),
}


@pytest.mark.parametrize("name", SIZES)
def test_a_size_below_one_is_named(name):
    with pytest.raises(ValueError, match=f"^{name}: got 0, expected an integer of at least 1"):
        SIZES[name]()


def test_what_is_no_model_is_named():
    for call in (modules.swap, track):
        with pytest.raises(TypeError, match=r"^model: got int, expected a torch\.nn\.Module"):
            call(3)


@pytest.mark.parametrize("lengths", [(), (4, 2), (2, 2), (0, 4)])
def test_buckets_are_in_order(lengths):
    with pytest.raises(ValueError, match=r"^lengths: got .*, expected at least one, from 1 on, in ascending order"):
        Buckets(lengths)
