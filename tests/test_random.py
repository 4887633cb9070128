"""Random numbers from counters: the published words, and the same bits at every level."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from kernels.cuda import RawModule
from kernels.random import philox, philox_round, uniform, uniform4
from kernels.triton.launch import launch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CUDA = RawModule(
    code="""
#include "philox.cuh"

extern "C" __global__ void words(const uint4 *counters, const uint2 *keys, uint4 *found, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) found[i] = philox(counters[i], keys[i]);
}
extern "C" __global__ void numbers(unsigned long long seed, const long long *offsets, float *found, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) found[i] = uniform(seed, offsets[i]);
}
extern "C" __global__ void fours(unsigned long long seed, const long long *offsets, float4 *found, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) found[i] = uniform4(seed, offsets[i]);
}
"""
)

# Counter, key and words of philox4x32 with 10 rounds, from kat_vectors of the authors' Random123.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@triton.jit
def words_kernel(counters_ptr, found_ptr, seed):
    c0, c1, c2, c3 = tl.philox(
        seed, tl.load(counters_ptr), tl.load(counters_ptr + 1), tl.load(counters_ptr + 2), tl.load(counters_ptr + 3)
    )
    tl.store(found_ptr, c0.to(tl.int32, bitcast=True))
    tl.store(found_ptr + 1, c1.to(tl.int32, bitcast=True))
    tl.store(found_ptr + 2, c2.to(tl.int32, bitcast=True))
    tl.store(found_ptr + 3, c3.to(tl.int32, bitcast=True))


@triton.jit
def numbers_kernel(seed, offsets_ptr, found_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(found_ptr + at, tl.rand(seed, tl.load(offsets_ptr + at, mask=at < N)), mask=at < N)


@triton.jit
def fours_kernel(seed, offsets_ptr, found_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    one, two, three, four = tl.rand4x(seed, tl.load(offsets_ptr + at))
    tl.store(found_ptr + 4 * at, one)
    tl.store(found_ptr + 4 * at + 1, two)
    tl.store(found_ptr + 4 * at + 2, three)
    tl.store(found_ptr + 4 * at + 3, four)


def in_triton(seed, offsets):
    found = torch.empty(offsets.shape, device=offsets.device)
    launch(numbers_kernel, (triton.cdiv(offsets.numel(), 256),), seed, offsets, found, offsets.numel(), BLOCK=256)
    return found


def in_cuda(seed, offsets):
    found, N = torch.empty(offsets.shape, device=offsets.device), offsets.numel()
    CUDA.get_function("numbers")(((N + 127) // 128,), (128,), (seed, offsets.long(), found, N))
    return found


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_the_published_words(counter, key, words):
    counter, key, words = ([int(word, 16) for word in text.split()] for text in (counter, key, words))
    tensors = [torch.tensor([word], device=DEVICE) for word in counter]
    assert [int(word) for word in philox(*tensors, *key)] == words

    def bits(values):
        return torch.from_numpy(np.array(values, np.uint32).view(np.int32)).to(DEVICE)

    found = torch.empty(4, dtype=torch.int32, device=DEVICE)
    CUDA.get_function("words")((1,), (1,), (bits(counter), bits(key), found, 1))
    assert torch.equal(found, bits(words))
    found.zero_()
    launch(words_kernel, (1,), bits(counter), found, key[0] | key[1] << 32)
    assert torch.equal(found, bits(words))


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32 + 5, 2**63 - 1])
@pytest.mark.parametrize("start", [0, 2**31 - 500, 2**32 - 500, 2**40 + 3])
def test_every_level_gives_the_same_bits(seed, start):
    offsets = torch.arange(start, start + 1000, device=DEVICE)
    expected = uniform(seed, offsets)
    # TorchScript's fuser, which a GPU alone has, makes other words of the same integers (torch 2.11).
    scripted = [torch.jit.script(uniform)] if DEVICE == "cpu" else []
    for other in (in_triton, in_cuda, *scripted):
        assert torch.equal(other(seed, offsets), expected), other


@pytest.mark.parametrize("seed", [1, 2**63 - 1])
def test_the_four_numbers_of_a_counter(seed):
    offsets = torch.arange(2**33, 2**33 + 128, device=DEVICE)
    expected, found = uniform4(seed, offsets), torch.empty(2, 128, 4, device=DEVICE)
    launch(fours_kernel, (1,), seed, offsets, found[0], BLOCK=128)
    CUDA.get_function("fours")((1,), (128,), (seed, offsets, found[1], 128))
    assert torch.equal(found[0], expected) and torch.equal(found[1], expected)
    assert torch.equal(expected[:, 0], uniform(seed, offsets)) and expected.unique().numel() == 512


def test_offsets_of_32_bits_give_what_those_of_64_do():
    offsets = torch.arange(1000, device=DEVICE)
    for each in (uniform, in_triton):
        assert torch.equal(each(7, offsets.int()), uniform(7, offsets))


@pytest.mark.slow
def test_the_compiler_gives_the_same_bits():
    offsets = torch.arange(2**33, 2**33 + 1000, device=DEVICE)
    assert torch.equal(torch.compile(uniform, fullgraph=True)(2**40 + 7, offsets), uniform(2**40 + 7, offsets))


def test_nvidias_compiler_takes_the_header():
    pytest.importorskip("cuda.bindings", reason="needs NVRTC: cuda-bindings and cuda-toolkit[nvrtc]")
    from kernels.lens.cuda.resources import compiled

    assert compiled(CUDA.get_function("numbers"))["spilled_bytes"] == 0


def chi_square(numbers):
    """Of pairs of neighbours in 16 × 16 equal cells: about 255 ± 23 for random numbers from [0, 1)."""
    cells = (16 * numbers.reshape(-1, 2)).long()
    counts = torch.bincount(16 * cells[:, 0] + cells[:, 1], minlength=256).double()
    expected = counts.sum() / 256
    return float(((counts - expected) ** 2 / expected).sum())


def few_rounds(rounds):
    """As `uniform(1, offsets)` but for the number of rounds."""
    zero = torch.zeros(2**14, dtype=torch.int64)
    words, key = (torch.arange(2**14), zero, zero, zero), [1, 0]
    for _ in range(rounds):
        words = philox_round(*words, *key)
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words[0] / 2**32


def test_the_numbers_are_uniform_and_neighbours_independent():
    numbers = uniform(1, torch.arange(2**14))
    assert numbers.min() >= 0 and numbers.max() < 1
    assert abs(numbers.double().mean() - 0.5) < 5 * (1 / 12) ** 0.5 / 2**7  # five standard errors
    seeds = torch.stack([uniform(1, torch.arange(2**13)), uniform(2, torch.arange(2**13))], 1)
    for each in (numbers, seeds):
        assert 150 < chi_square(each) < 370
    for rounds in (1, 2, 3):
        assert not 150 < chi_square(few_rounds(rounds)) < 370, rounds
    assert 150 < chi_square(few_rounds(10)) < 370


def test_bad_arguments_are_named():
    with pytest.raises(TypeError, match=r"offsets: got torch.float32"):
        uniform(0, torch.zeros(3))
    with pytest.raises(ValueError, match="seed: got -1"):
        uniform(-1, torch.arange(3))
