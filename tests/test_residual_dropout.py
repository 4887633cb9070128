"""What is special to dropout: its rate, the same mask at every level and in the gradient, and the largest tensors."""

import pytest
import torch
from rungs import DEVICE, each_rung

import kernels
from kernels.cuda import gpu_compiler
from kernels.cuda.template import kernel
from kernels.lens.cuda.resources import ptx
from kernels.ops.residual_dropout import cuda, triton
from kernels.random import _number, _words, most_below, uniform4

OP = kernels.operation("residual_dropout")
KERNELS = [variant for variant in OP.forward if variant.level >= 4]


@each_rung(OP, OP.forward)
def test_the_rate_and_one_mask(variant):
    x, residual = torch.ones(100, 400, device=DEVICE, requires_grad=True), torch.zeros(100, 400, device=DEVICE)
    y = variant(x, residual, 0.2, 7)
    assert abs(float((y == 0).float().mean()) - 0.2) < 5 * (0.2 * 0.8 / y.numel()) ** 0.5  # five standard errors
    assert torch.equal(y, OP["native"](x, residual, 0.2, 7)) and not torch.equal(y, variant(x, residual, 0.2, 8))
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], y)


@pytest.mark.skipif(DEVICE == "cpu", reason="2^31 elements take a GPU's memory and speed")
@pytest.mark.parametrize("variant", KERNELS, ids=lambda v: v.key)
def test_elements_beyond_2_to_the_31_have_numbers_of_their_own(variant):
    x = torch.ones(2**31 + 4_096, dtype=torch.bfloat16, device=DEVICE)
    y = variant(x, x, 0.5, 7)[-8_192:]
    numbers = uniform4(7, torch.arange((x.numel() - 8_192) // 4, x.numel() // 4, device=DEVICE)).flatten()
    assert torch.equal(y, torch.where(numbers >= 0.5, 3.0, 1.0).to(y.dtype))


@pytest.mark.parametrize("wide", (False, True), ids=("in-32-bits", "in-64-bits"))
@pytest.mark.parametrize("shape", ((4_099, 10), (40_003,), (5, 8_200)), ids=str)
def test_several_packs_a_thread_and_the_elements_left_over(monkeypatch, shape, wide):
    monkeypatch.setattr(cuda, "multiprocessors", lambda device: 1)
    if wide:
        monkeypatch.setattr(cuda, "in_32_bits", lambda *tensors: False)
    x, residual = torch.randn(2, *shape, device=DEVICE).bfloat16()
    if len(shape) == 2 and shape[1] % 8 == 0:  # rows with gaps
        x = torch.cat((x, x[:, :8]), 1)[:, : shape[1]]
    y = OP["cuda"](x, residual, 0.25, 2**40 + 3)
    torch.testing.assert_close(y, OP["native"](x, residual, 0.25, 2**40 + 3), rtol=0, atol=0)
    dx = cuda.fours_again(x, 0.25, 2**40 + 3)
    torch.testing.assert_close(dx, OP["native"](x, torch.zeros_like(x), 0.25, 2**40 + 3), rtol=0, atol=0)


def test_counters_of_64_bits_in_triton(monkeypatch):
    monkeypatch.setattr(triton, "IN_32_BITS", 0)
    x = torch.ones(5, 1_001, device=DEVICE)
    y, expected = (OP[level](x, torch.zeros_like(x), 0.25, 2**40 + 3) for level in ("triton", "native"))
    assert torch.equal(y != 0, expected != 0)


@pytest.mark.parametrize("p", (0.0, 1e-12, 4.6566128e-10, 0.1, 0.25, 0.5, 0.7, 1 - 2**-24, 1 - 1e-9, 1.0))
def test_a_word_says_what_its_number_does(p):
    most = most_below(p)
    words = torch.tensor([max(most, 0), min(most + 1, 2**31 - 1), 0, 2**31 - 1])
    words = torch.cat((words, 0xFFFFFFFF - words))
    assert torch.equal(torch.where(words < 2**31, words, 0xFFFFFFFF - words) > most, _number(words) >= p)


@pytest.mark.parametrize("rungs", (cuda, triton), ids=("cuda", "triton"))
def test_the_last_word_that_is_dropped_and_the_first_that_is_kept(rungs, monkeypatch):
    x = torch.ones(16, device=DEVICE)
    words = torch.stack(_words(7, torch.arange(4)), -1).flatten()
    for i, word in enumerate(words.tolist()):
        folded = min(word, 0xFFFFFFFF - word)
        for most in (folded, folded - 1):
            monkeypatch.setattr(rungs, "most_below", lambda p, most=most: most)
            assert (rungs.fours_again(x, 0.5, 7)[i] != 0) == (most < folded)


@pytest.mark.skipif(not gpu_compiler.is_installed(), reason="NVRTC is not installed")
@pytest.mark.parametrize("index", (torch.int32, torch.int64), ids=str)
def test_a_pack_is_stored_by_one_instruction(index):
    text = ptx(kernel(cuda.FILE, "residual_dropout", torch.bfloat16, index, 8, cuda.PACKS, False))
    assert text.count("st.global.v4") == cuda.PACKS and "st.global.u32" not in text and "st.global.b32" not in text
