"""Mixture of experts: edge cases, what is dropped, bytes of the permutation, errors."""

import pytest
import torch

from kernels.lens.pytorch.operators import operators
from kernels.moe import MixtureOfExperts, Router


def test_even_routing_has_a_balance_loss_of_one():
    router = Router(4, 4, 1)
    torch.nn.init.eye_(router.gate.weight)
    _, chosen, loss = router(torch.eye(4))
    assert chosen.flatten().tolist() == [0, 1, 2, 3]
    assert loss.item() == pytest.approx(1)


def test_weights_of_a_token_sum_to_one():
    weights, chosen, _ = Router(8, 6, 3)(torch.randn(10, 8))
    torch.testing.assert_close(weights.sum(-1), torch.ones(10))
    assert all(len(set(row)) == 3 for row in chosen.tolist())


def test_one_expert_is_a_plain_network():
    model, x = MixtureOfExperts(8, 1, 1), torch.randn(2, 5, 8)
    y, loss = model(x)
    torch.testing.assert_close(y, torch.nn.functional.gelu(x @ model.up[0]) @ model.down[0])
    assert loss.item() == pytest.approx(1)


def test_beyond_the_capacity_tokens_give_zero_and_without_one_none_do():
    model, x = MixtureOfExperts(8, 4, 1, capacity=2), torch.randn(1, 8).expand(5, 8)
    assert model(x)[0].any(1).tolist() == [True, True, False, False, False]
    model.capacity = None
    assert model(x)[0].any(1).all()


def test_no_tokens_are_no_error():
    assert MixtureOfExperts(8, 4)(torch.zeros(0, 8))[0].shape == (0, 8)


def test_launches_do_not_grow_with_the_experts_and_rows_move_once():
    calls = {}
    for count in (4, 16):
        model = MixtureOfExperts(8, count, 2, method="grouped").to(torch.bfloat16)
        calls[count] = operators(model, torch.randn(32, 8, dtype=torch.bfloat16)).calls
    assert len(calls[4]) == len(calls[16])
    rows = 2 * 32 * 8 * 2  # two assignments a token, 8 features of two bytes
    assert rows in [one.written for one in calls[4] if one.name == "index"]


def test_grouped_and_loop_are_equal():
    grouped, loop = (MixtureOfExperts(8, 4, method=one) for one in ("grouped", "loop"))
    loop.load_state_dict(grouped.state_dict())
    x = torch.randn(9, 8)
    torch.testing.assert_close(grouped(x)[0], loop(x)[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Router(8, 4, 5), "^top_k: got 5, expected between 1 and experts, 4"),
        (lambda: Router(8, 4, 0), "^top_k: got 0"),
        (lambda: Router(8, 4)(torch.zeros(3, 7)), r"^x: got shape \(3, 7\), expected \(tokens, 8\)"),
        (lambda: MixtureOfExperts(8, 4, capacity=0), "^capacity: got 0, expected at least 1, or None"),
        (lambda: MixtureOfExperts(8, 4, method="fast"), "^method: got 'fast', expected one of grouped, loop"),
        (
            lambda: MixtureOfExperts(6, 4, method="grouped")(torch.zeros(2, 6)),
            "^method: got 'grouped', whose rows must",
        ),
    ],
)
def test_a_wrong_argument_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
