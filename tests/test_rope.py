"""What is special to rotary embedding: norms stay, and dot products go by the distance of positions alone."""

import pytest
import torch
from rungs import DEVICE, each_rung

import kernels
from kernels.cuda.kernel import watched as cuda_watched
from kernels.ops.rope import cuda, triton
from kernels.triton.launch import watched as triton_watched

OP = kernels.operation("rope")


@pytest.mark.parametrize("interleaved", [False, True])
@each_rung(OP, OP.forward)
def test_norms_stay_and_products_go_by_distance(variant, interleaved):
    inputs = OP.inputs(shape=(1, 1, 40, 16), device=DEVICE)
    q, k = (inputs[name][:, :, :1].repeat(1, 1, 40, 1) for name in "qk")  # the same at every position
    norms = q.norm(dim=-1)
    variant(q, k, inputs["cos"], inputs["sin"], interleaved)
    torch.testing.assert_close(q.norm(dim=-1), norms)
    products = (q @ k.transpose(-1, -2))[0, 0]
    for distance in (-7, 0, 1, 30):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(products[0, :1], products[0, 1:], rtol=1e-2)


@each_rung(OP, [OP["triton"], OP["cuda"]])
def test_angles_need_not_begin_at_a_vector(variant):
    inputs = OP.inputs(shape=(1, 2, 3, 16), device=DEVICE)
    expected = OP.reference(**inputs)
    for name in ("cos", "sin"):
        angles = inputs[name]
        inputs[name] = torch.cat((angles.new_zeros(1), angles.flatten()))[1:].view_as(angles)
    variant(**inputs)
    for name, exact in zip("qk", expected, strict=True):
        torch.testing.assert_close(inputs[name].double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rungs", [triton, cuda])
def test_batches_beyond_a_grid_are_turned_by_several_launches(rungs, monkeypatch):
    monkeypatch.setattr(rungs, "LAUNCH_GRID", (2**31 - 1, 65_535, 3))
    inputs = OP.inputs(shape=(7, 2, 3, 16), device=DEVICE)
    expected = OP.reference(**inputs)
    grids = []
    with (cuda_watched if rungs is cuda else triton_watched)(lambda *launch: grids.append(launch[1])):
        rungs.heads(**inputs, interleaved=False)
    assert [grid[2] for grid in grids] == [3, 3, 1]
    rungs.heads(**inputs, interleaved=False)
    for name, exact in zip("qk", expected, strict=True):
        torch.testing.assert_close(inputs[name].double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("rungs", [triton, cuda])
def test_every_kernel_turns_both_ways(rungs, heads, far, interleaved, monkeypatch):
    """Those of large inputs, too, with several heads a thread, and with strides of 64 bits, which a batch of one may have."""
    if heads > 1:
        monkeypatch.setattr(*((cuda, "THREADS_AT_ONCE") if rungs is cuda else (triton, "PROGRAMS")), 0)
    inputs = OP.inputs(shape=(1 if far else 3, 6, 5, 16), sizes={"kv_heads": 3}, device=DEVICE)
    exact = OP.reference(**inputs, interleaved=interleaved)
    q, k, *angles = inputs.values()
    if far:
        q, k = (x.as_strided(x.shape, (2**31, *x.stride()[1:])) for x in (q, k))
    before, launches = (q.clone(), k.clone()), []
    with (cuda_watched if rungs is cuda else triton_watched)(lambda *launch: launches.append(launch)):
        rungs.heads(q, k, *angles, interleaved)
    if rungs is cuda:
        of_thread = cuda.PACKS // (1 if interleaved else 2) if heads > 1 else 1
        index = "long long" if far else "int"
        assert launches[0][0].name == f"rope<float, {index}, 4, {int(interleaved)}, {of_thread}, 0>"
    else:
        assert (launches[0][3]["WIDE"], launches[0][3]["HEADS"]) == (far, heads)
    rungs.heads(q, k, *angles, interleaved)
    for x, expected in zip((q, k), exact, strict=True):
        torch.testing.assert_close(x.double(), expected, rtol=1e-5, atol=1e-5)
    back = rungs.heads_back(q.transpose(1, 2).contiguous().transpose(1, 2), k, *angles, interleaved)
    for x, expected in zip(back, before, strict=True):
        torch.testing.assert_close(x, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("level", [4, 5])
def test_more_angles_than_32_bits_count_are_refused(level):
    q, angles = torch.zeros(1).expand(1, 1, 2**26, 64), torch.zeros(1).expand(2**26, 32)
    with pytest.raises(ValueError, match="cos: got 2,147,483,648 angles, expected fewer than 2³¹"):
        kernels.rope(q, q, angles, angles, level=level)
