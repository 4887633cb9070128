"""Patterns: counts of blocks, queries that see nothing, how patterns are put together; errors, also of sparse attention."""

import pytest
import torch

from kernels import masks
from kernels.masks import SparseAttention, flex


@pytest.mark.parametrize("count", [1, 4, 9])
def test_causal_blocks_by_their_formula(count):
    found = masks.blocks(masks.causal(), 1, 1, 8 * count, 8 * count, 8)
    assert (found.full, found.partial) == (count * (count - 1) // 2, count)
    assert found.full + found.partial + found.empty == count * count
    assert found.density == pytest.approx((count + 1) / (2 * count))


def test_blocks_equal_those_of_flex_attention():
    from torch.nn.attention.flex_attention import create_block_mask

    ids = torch.tensor([0] * 20 + [1] * 37 + [2] * 7)
    for pattern in (masks.causal(), masks.sliding_window(9), masks.prefix(17), masks.document(ids) & masks.causal()):
        found = masks.blocks(pattern, 1, 1, 64, 64, 8)
        theirs = create_block_mask(pattern.mask_mod, None, None, 64, 64, "cpu", BLOCK_SIZE=8)
        assert found.full == int(theirs.full_kv_num_blocks.sum())
        assert found.partial == int(theirs.kv_num_blocks.sum())


def test_blocks_of_more_keys_than_queries():
    found = masks.blocks(masks.prefix(5), 1, 1, 3, 10, 4)
    assert found.kinds.tolist() == [[[[2, 1, 0]]]]


def test_a_pattern_without_a_mask_is_full():
    assert masks.blocks(masks.alibi(2), 1, 2, 6, 6, 4).full == 2 * 2 * 2


def test_queries_that_see_nothing_give_zeros_and_no_gradient():
    q, k, v = (torch.randn(1, 1, 4, 8, requires_grad=True) for _ in range(3))
    nothing = masks.custom(lambda b, h, q, kv: (q < 0) & (kv < 0))
    output = masks.attention(q, k, v, nothing, method="eager")
    output.sum().backward()
    assert not output.any()
    assert not any(one.grad.any() or one.grad.isnan().any() for one in (q, k, v))


def test_the_order_of_score_functions_is_that_of_the_and():
    double, add = (masks.custom(score_mod=fn) for fn in (lambda s, b, h, q, kv: 2 * s, lambda s, b, h, q, kv: s + 1))
    one = torch.ones(1, 1, 1, 1)
    assert ((double & add).scores(one).item(), (add & double).scores(one).item()) == (3, 4)


def test_a_picture_counts_its_blocks():
    pytest.importorskip("plotly")
    shown = masks.picture({"causal": masks.causal(), "ALiBi": masks.alibi(2)}, 32, 8)
    assert repr(shown) == (
        "Blocks of 8 × 8 positions, of 32: causal 6 full, 4 partial, 6 empty; ALiBi 16 full, 0 partial, 0 empty."
    )
    with pytest.raises(ValueError, match="^patterns: got none"):
        masks.picture({}, 32, 8)


@torch.no_grad()
def test_flex_attention_reads_the_chosen_blocks():
    torch.manual_seed(0)
    module = SparseAttention(16, 2, 0.5, "random", block=4)
    q, k, v = module.heads(torch.randn(2, 16, 16))
    chosen, _ = module.chosen(q, k)
    mask = flex.chosen_mask(chosen, 4)
    blocks = torch.zeros(2, 2, 4, 4, dtype=torch.int32).scatter(-1, chosen, 1)
    assert torch.equal(mask.to_dense(), blocks), "what the compiled kernel goes by"
    torch.testing.assert_close(flex.by("cpu")(q, k, v, block_mask=mask), module.attend(q, k, v, chosen))


X = torch.zeros(1, 2, 4, 8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: masks.sliding_window(0), "^window: got 0, expected at least 1"),
        (lambda: masks.prefix(-1), "^length: got -1, expected at least 0"),
        (lambda: masks.alibi(0), "^num_heads: got 0"),
        (lambda: masks.softcap(0.0), "^cap: got 0.0, expected a positive"),
        (lambda: masks.softcap(float("nan")), "^cap: got nan"),
        (lambda: masks.custom(), "^mask_mod, score_mod: got neither"),
        (lambda: masks.document(torch.zeros(1, 1, 1, dtype=torch.int64)), r"^ids: got shape \(1, 1, 1\)"),
        (lambda: masks.blocks(masks.causal(), 1, 1, 4, 4, 0), "^size: got 0, expected at least 1"),
        (lambda: masks.alibi(2) & masks.alibi(4), "^heads: got 2 of ALiBi and 4 of ALiBi"),
        (lambda: masks.alibi(4).mask(1, 2, 4, 4), "^heads: got 2, expected 4, as ALiBi has"),
        (lambda: masks.document(torch.zeros(5, dtype=torch.int64)).mask(1, 1, 4, 4), "^length: got 4 queries and 4"),
        (lambda: masks.attention(X, X, X[:, :, :3], masks.causal()), "^q, k, v: got shapes"),
        (lambda: masks.attention(X[:, :1], X, X, masks.causal()), "^k: got 2 heads, expected a divisor of q's 1"),
        (lambda: masks.attention(X, X, X, masks.causal(), method="math"), "^method: got 'math', expected 'eager'"),
        (
            lambda: masks.attention(X.clone().requires_grad_(), X, X, masks.causal(), method="flex"),
            "^method: got 'flex', which has no gradients on a CPU",
        ),
        (lambda: SparseAttention(30, 8), "^dim: got 30, expected a multiple of num_heads, 8"),
        (lambda: SparseAttention(8, 2, 0.0), "^density: got 0.0, expected more than 0"),
        (lambda: SparseAttention(8, 2, 1.5), "^density: got 1.5"),
        (lambda: SparseAttention(8, 2, choose="best"), "^choose: got 'best', expected one of topk, random"),
        (lambda: SparseAttention(8, 2, block=0), "^block: got 0"),
        (
            lambda: SparseAttention(8, 2, block=4)(torch.zeros(1, 6, 8)),
            r"^x: got shape \(1, 6, 8\), expected \(B, a mul",
        ),
    ],
)
def test_a_wrong_argument_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_ids_are_integers():
    with pytest.raises(TypeError, match="^ids: got torch.float32, expected int32 or int64"):
        masks.document(torch.zeros(3))
