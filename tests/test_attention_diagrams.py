"""The drawings of attention's backward and of decoding show what the kernels do."""

import inspect

import pytest
import torch

from kernels import diagrams
from kernels.diagrams.gradient_walks import PRODUCTS
from kernels.diagrams.joined_parts import LARGEST, SCORES, SUMS
from kernels.diagrams.paged_cache import AFTER, BEFORE, PAGES, SIZE, place
from kernels.ops.attention import triton_backward
from kernels.ops.decode.native import gathered


def test_products_of_the_walks_are_those_of_the_kernels():
    """The walk over queries has one product more than dk and dv take, for dq in one walk."""
    dq, one = (
        inspect.getsource(walk.fn).count("tl.dot(") for walk in (triton_backward.add_keys, triton_backward.add_queries)
    )
    assert {"dq": dq, "dk and dv": one - 1, "one walk": one} == PRODUCTS
    said = [step.words for step in diagrams.gradient_walks().steps]
    assert all(str(products) in words for products, words in zip(PRODUCTS.values(), said, strict=True))


@pytest.mark.parametrize("held", [BEFORE, AFTER], ids=["before", "after"])
def test_a_key_is_where_the_operation_finds_it(held):
    cache = torch.arange(PAGES * SIZE, dtype=torch.float32)
    cache = cache.view(PAGES, SIZE, 1, 1)
    for table, length in held.values():
        found = gathered(cache, torch.tensor([length]), torch.tensor([table]))[0, 0, :length, 0].long()
        places = [place(table, key) for key in range(length)]
        assert found.tolist() == [page * SIZE + row for page, row in places]


def test_no_page_has_two_owners():
    for held in (BEFORE, AFTER):
        pages = [page for table, _ in held.values() for page in table]
        assert len(set(pages)) == len(pages)
        assert all(len(table) == -(-length // SIZE) for table, length in held.values())


def test_joined_parts_are_the_softmax_of_all_scores():
    scores = torch.tensor([score for part in SCORES for score in part], dtype=torch.float64)
    total = (scores - LARGEST).exp().sum().item()
    assert scores.max() == LARGEST
    assert SUMS[-1] == pytest.approx(total)
    assert f"{total:.2f} at the end" in diagrams.joined_parts().steps[-1].words
