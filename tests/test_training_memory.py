"""Errors and edge cases of what spares memory."""

import pytest
import torch
from torch import nn

from kernels.memory import checkpoint, track


def model() -> nn.Sequential:
    return nn.Sequential(*(nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)) for _ in range(3)))


X = torch.randn(16, 8)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"policy": "some"}, "^policy: got 'some', expected 'all', 'keep products' or a function"),
        ({"bytes": 10**6}, "^inputs: got 0, expected what the model is called with, together with `bytes`"),
        ({"inputs": (X,)}, "^inputs: got 1, expected what the model is called with, together with `bytes`"),
        ({"bytes": 100, "inputs": (X,)}, r"^bytes: got 100, expected at least [\d,]+, the smallest peak, with \d of 3"),
    ],
)
def test_a_wrong_argument_of_checkpoint_is_named(args, message):
    kept = model()
    with pytest.raises(ValueError, match=message):
        checkpoint(kept, **args)
    assert not any("forward" in vars(block) for block in kept)


def test_a_forward_that_is_not_of_its_class_is_refused():
    kept = model()
    kept[1].forward = lambda x: x
    with pytest.raises(ValueError, match="^model: its block 1 has a forward of its own"):
        checkpoint(kept)
    with pytest.raises(ValueError, match="^model: has no nn.Sequential"):
        checkpoint(nn.Linear(2, 2))


def test_a_choice_replaces_the_one_before_and_leaves_the_random_state():
    kept, state = model(), torch.get_rng_state()
    before = track(kept, X).bytes
    assert checkpoint(kept) == ["0", "1", "2"]
    assert checkpoint(kept, bytes=before, inputs=(X,)) == []
    assert track(kept, X).bytes == before
    assert torch.equal(state, torch.get_rng_state())
