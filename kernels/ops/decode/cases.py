"""The inputs that decoding is checked and timed on. A case's shape is that of q, sequences × heads × features."""

from dataclasses import replace
from typing import Any

import torch

from kernels.layouts import lay_out
from kernels.machine import Machine
from kernels.operation import Case, Cost
from kernels.row_cases import each, generator, rows
from kernels.unsupported import needs_gpu

KEYS = 40  # of the cache, unless a case says otherwise
SPARE = 3  # pages that no sequence has
CASES: dict[str, tuple[Case, ...]] = {
    "edge": (
        *each((1, 1, 8), (2, 2, 16), (2, 3, 40), (3, 2, 7), (2, 1, 1), sizes={"keys": 33}),
        # Parts, whose ends lie within a tile, and lengths with fewer keys than parts.
        *each((2, 2, 16), (3, 1, 33), sizes={"keys": 700}),
        *each((2, 4, 24), sizes={"keys": 300, "kv_heads": 2}),
        *each((1, 5, 16), (1, 20, 16), sizes={"kv_heads": 1}),
        *each((2, 4, 16), (3, 2, 9), sizes={"keys": 300, "page": 16}),
        *each((2, 6, 24), sizes={"keys": 77, "page": 5, "kv_heads": 2}),
        *each((2, 2, 16), sizes={"keys": 130, "page": 128}),
        *each((2, 2, 16), sizes={"page": 1}),
        *(case for length in (0, 1, 32) for case in each((2, 2, 16), sizes={"length": length})),
        *each((2, 2, 16), sizes={"page": 8, "length": 0}),
        *each((2, 2, 16), params={"scale": 0.5}),
        *each((0, 2, 16)),
        *each((0, 2, 16), sizes={"page": 8}),
        *each((2, 2, 16), sizes={"keys": 0}),
        *(case for layout in ("rows", "transposed", "sliced", "expanded") for case in each((2, 4, 24), layout=layout)),
        *(case for layout in ("rows", "sliced") for case in each((1, 4, 24), layout=layout, sizes={"page": 8})),
        *(case for values in ("nonfinite", "large", "small") for case in each((2, 4, 32), values=values)),
    ),
    "model": (
        *each((2, 8, 128), sizes={"keys": 300, "kv_heads": 2, "page": 16}),
        *each((3, 8, 64), sizes={"keys": 200, "kv_heads": 2}),
        *each((1, 4, 256), sizes={"kv_heads": 1}),
    ),
    "repeated": (Case((2, 4, 64), sizes={"keys": 1_500, "kv_heads": 2}),),
    "huge": (),  # the cache is large, not q: tests/test_decode.py has this case
    "bench": tuple(
        Case((B, 32, 128), "bfloat16", sizes={"keys": keys, "kv_heads": 8, "length": keys} | page)
        for B, keys in ((32, 8_192), (1, 131_072))
        for page in ({}, {"page": 64})
    ),
}


def lengths_of(case: Case) -> torch.Tensor:
    """Random numbers; the first sequence fills the cache, and of three the second is empty. Or as sizes["length"] says."""
    B, keys = case.shape[0], case.sizes.get("keys", KEYS)
    if "length" in case.sizes:
        return torch.full((B,), case.sizes["length"], dtype=torch.int32)
    random = torch.Generator().manual_seed(case.seed)
    lengths = torch.randint(min(keys, 1), keys + 1, (B,), generator=random, dtype=torch.int32)
    lengths[:1] = keys
    if B > 2:
        lengths[1] = 0
    return lengths


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    """q, k and v as attention has them; "nonfinite" has a NaN in a query and in a key. Behind the last key, and in pages that
    no sequence has, there is NaN, and a table has no page there."""
    random, lengths = generator(case, device), lengths_of(case).to(device)
    (B, H, D), keys = case.shape, case.sizes.get("keys", KEYS)
    finite = replace(case, values="realistic" if case.values == "nonfinite" else case.values, layout="contiguous")
    cache = replace(finite, shape=(B, case.sizes.get("kv_heads", H), keys, D))
    q, k, v = (rows(one, random, outlier=lambda normal: 4 * normal + 0.5) for one in (finite, cache, cache))
    if finite.values == "realistic":
        q, k, v = 0.7 * q, 0.7 * k, 0.35 * v
    if case.values == "nonfinite":
        q[0, 0, 1], k[-1, -1, 0, 2] = torch.nan, torch.nan
    behind = (torch.arange(keys, device=device) >= lengths[:, None])[:, None, :, None]
    k, v = (one.masked_fill(behind, torch.nan) for one in (k, v))
    table = {}
    if size := case.sizes.get("page"):
        many = -(-keys // size)
        place = torch.randperm(B * many + SPARE, generator=random, device=device)[: B * many]
        k, v = (paged(one, size, place) for one in (k, v))
        unused = torch.arange(many, device=device) * size >= lengths[:, None]
        table = {"table": place.view(B, many).int().masked_fill(unused, torch.iinfo(torch.int32).max)}
    q, k, v = (lay_out(one, case.layout) for one in (q, k, v))
    return {"q": q, "k": k, "v": v, "lengths": lengths} | table | dict(case.params)


def paged(cache: torch.Tensor, size: int, place: torch.Tensor) -> torch.Tensor:
    """The B×H'×S×D of a cache in pages of so many keys, page by page at `place`."""
    B, heads, keys, D = cache.shape
    many = -(-keys // size)
    whole = cache.new_full((B, many * size, heads, D), torch.nan)
    whole[:, :keys] = cache.transpose(1, 2)
    pages = cache.new_full((len(place) + SPARE, size, heads, D), torch.nan)
    pages[place] = whole.view(len(place), size, heads, D)
    return pages


def few(case: Case, many: int) -> Case:
    """Few sequences, and one part or two: their numbers change no kernel."""
    B, *others = case.shape
    keys = case.sizes.get("keys", KEYS)
    sizes = dict(case.sizes) | {"keys": min(keys, 256 + keys % 128)}
    if "length" in sizes:
        sizes["length"] = min(sizes["length"], sizes["keys"])
    return replace(case, shape=(min(B, many), *others), sizes=sizes)


def full(case: Case, machine: Machine) -> str | None:
    """Why PyTorch's flash kernel cannot run."""
    if case.dtype == "float32":
        return "has no float32"
    keys = case.sizes.get("keys", KEYS)
    return needs_gpu(case, machine) or (None if case.sizes.get("length") == keys > 0 else "knows no lengths")


def cost(case: Case) -> Cost:
    """Bytes: the keys and values that sequences have, q, the lengths and the pages in use read once, y and lse written once.
    Operations: two products over the keys."""
    (B, H, D), lengths, itemsize = case.shape, lengths_of(case), getattr(torch, case.dtype).itemsize
    keys, size = int(lengths.sum()), case.sizes.get("page")
    pages = int((-(-lengths // size)).sum()) if size else 0
    features = 2 * (keys * case.sizes.get("kv_heads", H) + B * H) * D
    return Cost(bytes=features * itemsize + 4 * (B * H + B + pages), flops=4 * keys * H * D)
