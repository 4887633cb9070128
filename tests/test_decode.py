"""What is special to decoding: pages anywhere in memory, memory that is not read, and how keys are divided into parts."""

import pytest
import torch
from rungs import DEVICE, each_rung

import kernels
from kernels import machine
from kernels.cuda import LaunchError
from kernels.cuda.kernel import watched
from kernels.hardware import REFERENCE_MULTIPROCESSORS, TARGETS
from kernels.ops.decode import cache, triton
from kernels.ops.decode.cache import parts
from kernels.ops.decode.cases import paged
from kernels.triton.launch import watched as watched_triton

OP = kernels.operation("decode")


def inputs(B=2, H=4, S=300, D=16, kv_heads=2):
    random = torch.Generator().manual_seed(0)
    shapes = (B, H, D), (B, kv_heads, S, D), (B, kv_heads, S, D)
    return [torch.randn(shape, generator=random).to(DEVICE) for shape in shapes]


def lengths(*of):
    return torch.tensor(of, dtype=torch.int32, device=DEVICE)


@each_rung(OP)
def test_the_last_query_of_attention_has_the_same_result(variant):
    q, k, v = inputs()
    y, lse = variant(q, k, v, lengths(300, 300))
    expected = kernels.attention(q[:, :, None], k, v, causal=True, level="native")
    torch.testing.assert_close((y, lse), (expected[0][:, :, 0], expected[1][:, :, 0]))


@each_rung(OP)
@pytest.mark.parametrize("D", [72, 128])
def test_a_score_far_above_all_others_gives_its_value(variant, D):
    """Exactly, so an element that goes to another key, head or feature shows."""
    B, H, S = 3, 4, 40
    target = (torch.arange(B * H, device=DEVICE).view(B, H) * 7 + 3) % S
    k = 30 * torch.eye(S, D, device=DEVICE).expand(B, 2, S, D)
    q = 30 * torch.eye(S, D, device=DEVICE)[target]
    random = torch.Generator().manual_seed(0)
    v = torch.randn(B, 2, S, D, generator=random).to(DEVICE).bfloat16()
    y, lse = variant(q.bfloat16(), k.bfloat16(), v, lengths(*[S] * B), None, 1.0)
    rows = target[..., None, None].expand(B, H, 1, D)
    assert torch.equal(y, v.repeat_interleave(2, 1).gather(2, rows)[:, :, 0])
    torch.testing.assert_close(lse, torch.full_like(lse, 900))


@each_rung(OP)
def test_pages_anywhere_and_in_two_sequences_give_the_same_bits(variant):
    """Of levels 4 and 5; the order of PyTorch's additions goes by strides."""
    same = torch.equal if variant.level >= 4 else torch.allclose
    q, k, v = inputs()
    k[1, :, :120], v[1, :, :120] = k[0, :, :120], v[0, :, :120]  # the same prompt
    expected = variant(q, k, v, lengths(300, 171))
    place = torch.arange(30, device=DEVICE).flip(0)
    table = place.view(2, 15).int()
    k, v = (paged(one, 20, place) for one in (k, v))
    found = variant(q, k, v, lengths(300, 171), table)
    assert all(map(same, found, expected))
    k[table[1, :6]], v[table[1, :6]] = torch.nan, torch.nan
    table[1, :6] = table[0, :6]
    found = variant(q, k, v, lengths(300, 171), table)
    assert all(map(same, found, expected))


@each_rung(OP)
def test_a_sequence_without_keys_is_zero_whatever_the_cache_holds(variant):
    q, k, v = inputs(S=5)
    y, lse = variant(q, torch.full_like(k, torch.nan), torch.full_like(v, torch.inf), lengths(0, 0))
    assert not y.any() and lse.isneginf().all()


def test_parts_fill_the_gpu_whatever_the_lengths_are():
    k = torch.empty(1, 64, 8, 16).expand(4_096, 64, 8, 16)
    table = torch.zeros(1, 2_048, dtype=torch.int32)
    full = 4 * REFERENCE_MULTIPROCESSORS
    assert parts(8, k, table) == full // 8
    assert parts(full, k, table) == parts(10 * full, k, table) == 1
    assert parts(1, k, table[:, :4]) == 2, "parts of fewer than 128 keys are not worth it"
    assert parts(1, k[:, :0], None) == 1


@each_rung(OP, [one for one in OP.variants if one.level >= 4])
def test_more_heads_than_a_grid_takes_are_several_launches(variant, monkeypatch):
    """Those with parts: the others have a grid of one dimension."""
    monkeypatch.setattr(cache, "LAUNCH_GRID", (2**31 - 1, 5, 5))
    grids = []
    for table in (None, torch.arange(45, device=DEVICE).view(3, 15).int()):
        q, k, v = (one.half() for one in inputs(B=3))
        if table is not None:
            k, v = (paged(one, 20, torch.arange(45, device=DEVICE)) for one in (k, v))
        given = (q, k, v, lengths(300, 0, 171), table)
        with (watched if variant.level == 5 else watched_triton)(lambda kernel, grid, *others: grids.append(grid)):
            variant(*given)
        assert {grid[1] for grid in grids if len(grid) > 1} - {1} == ({4, 2} if variant.name != "warp" else set())
        for one, expected in zip(variant(*given), OP["native"](*given), strict=True):
            torch.testing.assert_close(one, expected, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    ("dtype", "D", "target", "kernel"),
    [
        ("bfloat16", 80, "sm_90", "decode_tensor_cores"),
        ("float16", 256, "sm_80", "decode_tensor_cores"),
        ("float16", 80, "sm_75", "decode_registers"),
        ("float32", 80, "sm_90", "decode_registers"),
        ("bfloat16", 81, "sm_90", "decode_registers"),
    ],
)
def test_tensor_cores_take_vectors_of_half_types_and_leave_the_rest(dtype, D, target, kernel):
    """As on a GPU, where nothing is to run."""
    q, k, v = (one.cpu().to(getattr(torch, dtype)) for one in inputs(D=D))
    launched = []
    with machine.planning(TARGETS[target]), watched(lambda kernel, *launch: launched.append(kernel.name)):
        OP["cuda/tensor_cores"](q, k, v, torch.tensor([300, 7], dtype=torch.int32))
    assert [name.partition("<")[0] for name in launched] == [kernel, "decode_join"]


def test_many_wide_heads_fit_in_the_shared_memory_of_every_target():
    """Compiled for sm_75, 64 heads of 256 features took 80 KiB, and 86,272 bytes in float32."""
    for name, target in TARGETS.items():
        for dtype in (torch.float32, torch.float16):
            for D, group in ((256, 64), (129, 200), (128, 64)):
                with machine.planning(target):
                    options, _ = triton.tile(D, group, torch.empty(1, group, D, dtype=dtype))
                sums = 5 * options["HEADS"] * options["BLOCK_D"]
                assert sums <= target.shared_bytes_per_block, f"{name} {dtype} {D}: {options}"
                assert options["HEADS"] == (32 if name == "sm_75" and D > 128 else 64)


@pytest.mark.skipif(DEVICE == "cuda", reason="there the kernel asserts it, after which the process has no GPU")
@pytest.mark.parametrize("level", kernels.LEVELS)
def test_lengths_and_pages_out_of_range_are_named(level):
    q, k, v = inputs(S=6, kv_heads=4)
    for length in (7, -1):
        with pytest.raises(ValueError, match=rf"lengths: got {length} at \(1,\), expected 0 to 6"):
            kernels.decode(q, k, v, lengths(2, length), level=level)
    pages = (q, k.transpose(1, 2), v.transpose(1, 2))
    for page in (2, -1):
        table = torch.tensor([[0, 1], [0, page]], dtype=torch.int32)
        with pytest.raises(ValueError, match=rf"table: got {page} at \(1, 1\), expected 0 to 1"):
            kernels.decode(*pages, lengths(12, 7), table, level=level)
        with pytest.raises(ValueError, match=r"lengths: got 13 at \(0,\), expected 0 to 12"):
            kernels.decode(*pages, lengths(13, 6), table, level=level)
        kernels.decode(*pages, lengths(12, 6), table, level=level)  # the second page of the second is not in use


@pytest.mark.skipif(DEVICE == "cuda", reason="there an assertion takes the GPU from the process")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@each_rung(OP, [one for one in OP.variants if one.level == 5])
def test_the_kernel_asserts_what_the_host_cannot_look_at(variant, dtype, monkeypatch):
    """Triton's interpreter leaves assertions out."""
    monkeypatch.setattr("kernels.arguments.known", lambda value: False)
    q, k, v = (one.to(dtype) for one in inputs(S=6, kv_heads=4))
    with pytest.raises(LaunchError, match="lengths"):
        variant(q, k, v, lengths(2, 7))
    table = torch.tensor([[0, 1], [0, 2]], dtype=torch.int32)
    with pytest.raises(LaunchError, match="table"):
        variant(q, k.transpose(1, 2), v.transpose(1, 2), lengths(12, 7), table)


@pytest.mark.parametrize("level", kernels.LEVELS)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": torch.zeros(2, 3, 6, 16)}, r"k: got shape \(2, 3, 6, 16\), expected .* H' a divisor of q's 4 heads"),
        ({"k": torch.zeros(1, 2, 6, 16)}, r"k: got shape \(1, 2, 6, 16\), expected \(2, 2, 6, 16\), B and D as q"),
        ({"v": torch.zeros(2, 2, 5, 16)}, r"v: got shape \(2, 2, 5, 16\), expected \(2, 2, 6, 16\) like k"),
        ({"lengths": torch.zeros(3).int()}, r"lengths: got shape \(3,\), expected \(2,\), a length for each sequence"),
        ({"table": torch.zeros(3, 1).int()}, r"table: got shape \(3, 1\), expected \(B, max_pages\) for q's 2"),
        ({"scale": 0.0}, "scale: got 0.0, expected a positive number"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_what_does_not_fit_is_named(level, change, words):
    q, k, v = inputs(S=6)
    if "table" in change:
        k, v = k.transpose(1, 2), v.transpose(1, 2)
    change = {name: v.to(DEVICE) if isinstance(v, torch.Tensor) else v for name, v in change.items()}
    with pytest.raises(ValueError, match=words):
        kernels.decode(**({"q": q, "k": k, "v": v, "lengths": lengths(6, 6)} | change), level=level)


@pytest.mark.skipif(DEVICE == "cpu", reason="2^31 elements take a GPU's memory and speed")
@pytest.mark.parametrize("variant", [one for one in OP.variants if one.level >= 4], ids=lambda v: v.key)
def test_a_cache_of_more_than_2_to_the_31_elements(variant):
    """The last pages alone are in use, and the last sequence and head of a cache without pages."""
    q = torch.ones(2, 2, 64, dtype=torch.bfloat16, device=DEVICE)
    cache = torch.zeros(2**31 // (16 * 2 * 64) + 40, 16, 2, 64, dtype=torch.bfloat16, device=DEVICE)
    cache[-40:] = torch.arange(40.0, device=DEVICE)[:, None, None, None] / 40
    table = len(cache) - 40 + torch.arange(40, device=DEVICE).view(2, 20).int()
    expected = variant(q, cache[-40:], cache[-40:], lengths(320, 300), table - table.min())
    assert all(map(torch.equal, variant(q, cache, cache, lengths(320, 300), table), expected))
    half = cache.flatten(0, 1)[: cache.shape[0] * 16 // 2 * 2].view(2, -1, 2, 64).transpose(1, 2)
    y, _ = variant(q, half, half, lengths(0, half.shape[2]))
    assert y[1].float().amax() > 0 and not y[0].any()
