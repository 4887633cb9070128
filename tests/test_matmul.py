"""What is special to matrix products: they agree with the identity, add up no padding, and take one w or one for each."""

from dataclasses import replace
from itertools import product

import pytest
import torch

import kernels
from kernels.hardware import TARGETS
from kernels.machine import here, interpreting, planning
from kernels.ops.matmul import cuda, products, triton_descriptors, triton_split

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
OP = kernels.operation("matmul")
RUNGS = [variant for variant in OP.forward if variant.level in (1, 4, 5)]


def run(variant, *args, **params):
    if reason := variant.unsupported(OP.cases["model"][0], here(DEVICE)):
        pytest.skip(reason)
    return variant.fn(*args, **params)


@pytest.mark.parametrize("variant", RUNGS, ids=lambda v: v.key)
def test_the_identity_changes_nothing(variant):
    x = torch.randn(19, 33, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    assert torch.equal(run(variant, x, torch.eye(33, device=DEVICE)), x)


@pytest.mark.parametrize("variant", RUNGS, ids=lambda v: v.key)
def test_what_lies_behind_a_matrix_is_not_added(variant):
    memory = torch.full((40, 64), float("nan"), device=DEVICE)
    x, w = memory[:17, :21].fill_(1), torch.ones(21, 5, device=DEVICE)
    assert torch.equal(run(variant, x, w), torch.full((17, 5), 21.0, device=DEVICE))


def test_a_w_of_another_batch_is_refused():
    with pytest.raises(ValueError, match=r"w: got shape \(2, 4, 5\), expected \(3, 4, 5\)"):
        kernels.matmul(torch.ones(3, 6, 4), torch.ones(2, 4, 5))


def test_tiles_are_large_where_they_stand_for_two_small_ones_and_have_room():
    def chosen(B, M, N):
        return cuda.tile_for(B, M, N, torch.device("cpu"))

    assert {chosen(1, 4_096, 4_096), chosen(1, 512, 6_144), chosen(1, 128, 67 * 256), chosen(17, 129, 257)} == {
        cuda.LARGE
    }
    assert {chosen(1, 128, 66 * 256), chosen(16, 129, 257), chosen(9_999, 127, 999), chosen(9_999, 999, 255)} == {
        cuda.SMALL
    }
    with planning(TARGETS["sm_86"]):
        assert chosen(1, 4_096, 4_096) == cuda.SMALL


@pytest.mark.parametrize(
    ("x_t", "w_t", "dtype", "N"),
    [
        (False, False, torch.float16, 264),
        (False, True, torch.bfloat16, 259),
        (True, False, torch.bfloat16, 264),
        (True, True, torch.float16, 259),
        (True, False, torch.float16, 259),
    ],
)
def test_a_large_tile_gives_the_bits_of_small_ones(monkeypatch, x_t, w_t, dtype, N):
    """More steps of K than stages, both ends ragged; an odd N is stored, and read by rows, one element at a time."""
    random = torch.Generator().manual_seed(0)

    def matrix(rows, columns, by_columns):
        made = torch.randn((columns, rows) if by_columns else (rows, columns), generator=random).to(DEVICE, dtype)
        return made.T if by_columns else made

    x, w, bias = matrix(136, 200, x_t), matrix(200, N, w_t), matrix(1, N, False)[0]
    bare = replace(
        OP["cuda/wmma"], fn=products.forward(cuda.wmma)
    )  # of the rung a GPU would repeat the first tile's launch
    found = {}
    for tile in (cuda.SMALL, cuda.LARGE):
        monkeypatch.setattr(cuda, "tile_for", lambda *_, tile=tile: tile)
        found[tile] = run(bare, x, w, bias, "gelu")
    assert torch.equal(found[cuda.SMALL], found[cuda.LARGE])
    exact = OP.reference(x, w, bias, "gelu")
    assert (found[cuda.LARGE] - exact).abs().max() < 2 * torch.finfo(dtype).eps * exact.abs().max()


@pytest.mark.skipif(DEVICE == "cuda" or not interpreting(), reason="where there is TMA, the rungs' own cases meet it")
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize(("x_t", "w_t"), [*product((False, True), repeat=2)])
def test_tiles_by_descriptors_are_right_where_nothing_else_takes_them(monkeypatch, x_t, w_t, parts):
    """Ragged tiles at every end, and parts of K of which the last is shorter; then the gradient before the activation."""
    cut = triton_split.Cut(64, 128, 32, 2, 4, 1.0, 16)
    monkeypatch.setattr(triton_descriptors, "has_descriptors", lambda *_: True)
    monkeypatch.setattr(triton_split, "best_cut", lambda *_: (cut, parts))
    M, K, N = 136, 200, 264
    random = torch.Generator().manual_seed(0)
    x, w, bias, dy = (
        torch.randn(shape, generator=random).to(torch.float16) for shape in ((1, M, K), (1, K, N), (N,), (1, M, N))
    )
    h = (x.double() @ w.double() + bias.double()).requires_grad_()
    exact = torch.nn.functional.gelu(h)
    exact.backward(dy.double())
    x, w = (one.mT.contiguous().mT if flip else one for one, flip in ((x, x_t), (w, w_t)))
    for incoming, expected in ((None, exact.detach()), (dy, h.grad)):
        y = torch.full((1, M, N), float("nan"), dtype=torch.float16)
        triton_split.multiply(x, w, y, bias, incoming, "gelu")
        assert (y - expected).abs().max() < 2 * torch.finfo(torch.float16).eps * expected.abs().max()
