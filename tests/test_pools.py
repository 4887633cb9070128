"""The simulated allocator's errors, and what is recorded of a function."""

import pytest
import torch

from kernels.memory.pools import Event, Pool, record


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        ([Event(0, 0)], "^bytes: got 0 for 0, expected at least 1"),
        ([Event(0, 1), Event(0, 1)], "^tensor: 0 is allocated already"),
        ([Event(3, None)], "^tensor: 3 is freed, and was not allocated"),
    ],
)
def test_a_wrong_trace_is_named(trace, message):
    with pytest.raises(ValueError, match=message):
        Pool().replay(trace)


def test_a_recording_has_storages_and_not_views():
    def fn():
        x = torch.empty(100, 10)
        y = x[:50] + 1
        del x
        return y.view(-1)

    assert record(fn) == [Event(0, 4000), Event(1, 2000), Event(0, None), Event(1, None)]


def test_small_and_large_requests_take_the_segments_of_their_kind():
    pool = Pool().replay([Event(0, 1), Event(1, 1 << 20), Event(2, 2 << 20), Event(3, 11 << 20)])
    assert pool.reserved == (2 << 20) + (20 << 20), "the last one fits into what the third left of its segment"
    assert pool.allocated == 512 + (1 << 20) + (2 << 20) + (11 << 20)
