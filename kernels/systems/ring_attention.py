"""Ring attention against attention in one process in float64: outputs, gradients, messages and bytes; a million tokens."""

import math
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import torch

from kernels.claims import Claim, Number
from kernels.distributed import counted, ring, ring_attention, run, shard
from kernels.distributed.messages import exchange
from kernels.distributed.planned import rank_of_many, work
from kernels.distributed.ring import PLACINGS, _attend_backward, _neighbours, merge, tiles
from kernels.figures import Picture
from kernels.system import Shown, System
from kernels.tolerance import compare

RANKS, SHAPE = 3, (2, 2, 48, 8)  # B, H, S, D
Ring = Callable[..., torch.Tensor]


def inputs(dtype: torch.dtype) -> list[torch.Tensor]:
    """q, k, v of the whole sequence, and the gradient that comes back: what bfloat16 holds."""
    random = torch.Generator().manual_seed(0)
    return [torch.randn(SHAPE, generator=random).bfloat16().to(dtype) for _ in range(4)]


def alone(dtype: torch.dtype, causal: bool, device: str) -> list[torch.Tensor]:
    """The output and the gradients of q, k and v, in one process."""
    q, k, v, incoming = (x.to(device).requires_grad_() for x in inputs(dtype))
    scores = q @ k.mT / math.sqrt(SHAPE[-1])
    if causal:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -math.inf)
    out = scores.softmax(-1) @ v
    return [one.detach().cpu() for one in (out, *torch.autograd.grad(out, (q, k, v), incoming))]


Found = tuple[list[torch.Tensor], tuple[int, int]]


def together(make: Ring, device: str, dtype: torch.dtype, causal: bool, placing: str) -> Found:
    """On each rank: its shares of the same, and the messages and bytes that it has sent."""
    q, k, v, incoming = (shard(x, 2, placing).to(device).requires_grad_() for x in inputs(dtype))
    with counted() as sent:
        out = make(q, k, v, causal=causal, placing=placing, block=5)
        gradients = torch.autograd.grad(out, (q, k, v), incoming)
    return [out.detach(), *gradients], (sent.messages, sent.bytes)


CASES = [
    (torch.float32, False, "contiguous"),
    (torch.float32, True, "contiguous"),
    (torch.float32, True, "zigzag"),
    (torch.bfloat16, True, "zigzag"),
]


def all_cases(make: Ring, device: str) -> list[Found]:
    return [together(make, device, *case) for case in CASES]


def theory(share: int, ranks: int, dtype: torch.dtype) -> tuple[int, int]:
    """Messages and bytes that a rank sends forward and backward, for so many numbers in its share of k."""
    wide = max(dtype.itemsize, 4)
    return 3 * (ranks - 1), 2 * (ranks - 1) * share * (2 * dtype.itemsize + wide)


def check(make: Ring, device: str) -> tuple[float, str | None]:
    """All cases in one start of three ranks, by the course's error bound."""
    worst, found = 0.0, run(all_cases, make, device, ranks=RANKS, device=device)
    for number, (dtype, causal, placing) in enumerate(CASES):
        case = f"{dtype}, causal {causal}, {placing}"
        reference, baseline = (alone(one, causal, device) for one in (torch.float64, dtype))
        for rank in range(RANKS):
            got, sent = found[rank][number]
            if sent != (expected := theory(math.prod(SHAPE) // RANKS, RANKS, dtype)):
                return math.inf, f"{case}, rank {rank}: sent {sent[1]} bytes in {sent[0]} messages, not {expected}"
            here = torch.from_numpy(PLACINGS[placing](SHAPE[2], rank, RANKS))
            names = "output", "gradient of q", "gradient of k", "gradient of v"
            for name, one, exact, same in zip(names, got, reference, baseline, strict=True):
                ratio, failure = compare(one, exact[:, :, here], same[:, :, here], dtype)
                if failure:
                    return ratio, f"{case}, rank {rank}, {name}: {failure}"
                worst = max(worst, ratio)
    return worst, None


def with_other(name: str, value: object, *args: Any, **options: Any) -> torch.Tensor:
    """Ring attention with another function in the place of one of its own, in the backward too: until the next call."""
    patch.stopall()
    patch.object(ring, name, value).start()
    return ring_attention(*args, **options)


def averaged(*args, **options):
    """Gives what is there and what comes the same weight."""

    def halves(out, lse, other, other_lse):
        share = torch.where(lse.isinf(), 0.0, 0.5)[..., None]
        return share * out + (1 - share) * other, torch.logaddexp(lse, other_lse)

    return with_other("merge", halves, *args, **options)


def sum_not_kept(*args, **options):
    """Weighs right, and forgets to add the new sum to the old one."""

    def one_sum(out, lse, other, other_lse):
        return merge(out, lse, other, other_lse)[0], torch.maximum(lse, other_lse)

    return with_other("merge", one_sum, *args, **options)


def local_offset(*args, **options):
    """Every rank's share begins at position 0 for the mask."""

    def placed(placing):
        return lambda length, rank, ranks: PLACINGS[placing](length, 0, ranks)

    return with_other("_placed", placed, *args, **options)


def strict(*args, **options):
    """A position does not see itself, but for the first, which would see nothing."""

    def strictly(rows, columns, causal, block):
        for tile in tiles(rows, columns, causal, block):
            if tile.mask is not None:
                tile.mask[1:] &= torch.from_numpy(rows[tile.rows, None] != columns[tile.columns])[1:]
            yield tile

    return with_other("tiles", strictly, *args, **options)


def other_way(*args, **options):
    """Keys go to the rank before, and are taken for those of the rank before."""
    return with_other("_neighbours", lambda: _neighbours()[::-1], *args, **options)


def gradients_stay(*args, **options):
    """What a rank finds for others' keys is sent, and nothing made of it."""
    return with_other("exchange", lambda *message: 0 * exchange(*message), *args, **options)


def softmax_taken_apart(*args, **options):
    """The backward of the softmax without what all weights of a row have in common."""

    def backward(q, kv, scale, mask, gradient, lse, delta):
        return _attend_backward(q, kv, scale, mask, gradient, lse, 0 * delta)

    return with_other("_attend_backward", backward, *args, **options)


def in_float32(q, k, v, **options):
    """Right, with twice the bytes for bfloat16."""
    return ring_attention(q.float(), k.float(), v.float(), **options).to(q.dtype)


def million(device: str) -> Mapping[str, Number]:
    """A rank of 64 at 2²⁰ positions: its peak, what it sends, and as which power of the length both and the work grow."""
    ranks, length = 64, 1 << 20
    (half, half_sent), (peak, sent) = (rank_of_many(size, ranks, 2_048) for size in (length // 2, length))
    half_work, whole_work = (work(size, 0, ranks, "zigzag") for size in (length // 2, length))
    found: dict[str, tuple[float, str]] = {
        "peak of a rank": (peak / 2**20, "MiB"),
        "messages of a rank": (sent.messages, "messages"),
        "sent by a rank": (sent.bytes / 2**20, "MiB"),
        "growth of the peak": (math.log2(peak / half), "of the length, as a power"),
        "growth of the bytes": (math.log2(sent.bytes / half_sent.bytes), "of the length, as a power"),
        "growth of the scores": (math.log2(whole_work / half_work), "of the length, as a power"),
    }
    for placing in PLACINGS:
        works = [work(1 << 16, rank, 16, placing) for rank in range(16)]
        found[f"busiest of 16 ranks, {placing}"] = 16 * max(works) / sum(works), "× the mean"
    return {name: Number.exact(value, unit) for name, (value, unit) in found.items()}


def demo(device: str, quick: bool) -> Shown:
    import plotly.graph_objects as go

    length, ranks = 8_192, 8
    works = {placing: [work(length, rank, ranks, placing, 128) for rank in range(ranks)] for placing in PLACINGS}
    bars = [go.Bar(x=list(range(ranks)), y=each, name=placing) for placing, each in works.items()]
    layout = {"xaxis": {"title": "rank"}, "yaxis": {"title": "scores computed under a causal mask"}}
    busiest = ", ".join(
        f"{placing} {ranks * max(each) / sum(each):.2f} times the mean" for placing, each in works.items()
    )
    half, peak = (rank_of_many(ranks * share, ranks)[0] for share in ((512, 1_024) if quick else (2_048, 4_096)))
    return Shown(
        f"attention over a sequence of which each of {RANKS} processes has a share; keys and values go round",
        "outputs and gradients equal one process in float64, messages and bytes equal the theory",
        f"the busiest of {ranks} ranks computes: {busiest}; twice the length takes {peak / half:.2f} times the memory",
        Picture(go.Figure(bars, layout), f"Scores that each of {ranks} ranks computes; the busiest: {busiest}."),
    )


SYSTEM = System(
    name="ring_attention",
    summary="attention over a sequence that several ranks share, whose keys and values go round",
    modules=("kernels.distributed.ring",),
    make=ring_attention,
    proof="attention of one process in float64: outputs and gradients of three ranks; messages and bytes against the theory",
    check=check,
    wrong={
        "what is there and what comes weigh the same": averaged,
        "the new sum is not kept": sum_not_kept,
        "every rank’s mask begins at position 0": local_offset,
        "a position does not see itself": strict,
        "keys come from the other side": other_way,
        "gradients of keys stay where they are": gradients_stay,
        "weights of a row are taken for independent": softmax_taken_apart,
        "bfloat16 travels as float32": in_float32,
    },
    demo=demo,
    from_torch=("the matrix products of a tile", "isend and irecv, through gloo or NCCL"),
    claims=(
        Claim(
            name="ring-1m-tokens",
            text="ring attention to 1M tokens, O(N) memory",
            source="optimization framework, long sequences",
            conditions="none given",
            verdict="partly",
            reason="peak and messages of a rank at that length are counted from the code that runs, without numbers in it; "
            "memory grows with the length, and the work with its square",
            evidence="exact on a CPU",
            experiment=million,
            devices=("cpu",),
        ),
    ),
)
