"""Text, bits, and blocks that take work until none is left."""

import torch
from torch import arange, randint, randn, zeros

from corpus import data_references as expected
from corpus.case import Case, blank

UNSIGNED = torch.iinfo(torch.int32)


def words(*shape, letters="abcd"):
    return torch.tensor(list(letters.encode()), dtype=torch.int8)[randint(0, len(letters), shape)]


def patterned():
    text = words(1000)
    text[700:703] = text[997:] = text[:3]
    return {"text": text, "n": 1000, "pattern": text[:3].clone(), "length": 3, "match": blank(1000, dtype=torch.uint8)}


def any_word(*shape):
    return randint(UNSIGNED.min, UNSIGNED.max, shape).int()


def filtered(module, a):
    module.get_function("filter_even")((4,), (256,), (a["out"], a["count"], a["x"], a["n"]))
    found = a["out"][: int(a["count"])]
    found.copy_(found.sort().values)  # blocks come in any order


CASES = (
    Case(
        "bytes.cu",
        "toUpper",
        lambda: {"text": words(1000, letters="azAZ\t {`19"), "n": 1000},
        expected.upper,
        grid=(3,),
        block=(128,),
    ),
    Case(
        "bytes.cu",
        "find_pattern",
        patterned,
        expected.found,
        grid=(8,),
        block=(128,),
        shared_mem=3,
    ),
    Case(
        "bytes.cu",
        "fnv1a",
        lambda: {"data": randint(0, 256, (70, 33)).byte(), "hashes": zeros(70).long(), "rows": 70, "n": 33},
        expected.fnv1a,
        grid=(2,),
        block=(64,),
    ),
    Case(
        "bytes.cu",
        "bit_facts",
        lambda: {"a": any_word(301), "b": any_word(301), "facts": blank(301, 4, dtype=torch.int32), "n": 301},
        expected.bit_facts,
        grid=(3,),
        block=(128,),
    ),
    Case(
        "bytes.cu",
        "byte_lanes",
        lambda: (
            {"a": any_word(301), "b": any_word(301)}
            | {name: zeros(301).int() for name in ("swapped", "mean", "shifted")}
            | {"n": 301}
        ),
        expected.byte_lanes,
        grid=(3,),
        block=(128,),
    ),
    Case(
        "bytes.cu",
        "edit_distance",
        lambda: {"a": words(5, 30), "b": words(5, 30), "out": blank(5, dtype=torch.int32), "n": 30},
        expected.edit_distances,
        grid=(5,),
        block=(16,),
        shared_mem=3 * 31 * 4,
    ),
    Case(
        "work.cu",
        "persistent_rows",
        lambda: {"x": randn(53, 90), "norms": blank(53), "rows": 53, "cols": 90, "taken": zeros(5).int()},
        lambda x: {"norms": x.norm(dim=1)},
        grid=(5,),
        block=(128,),
    ),
    Case(
        "work.cu",
        "filter_even",
        lambda: (
            {"out": torch.full((1000,), -1).int(), "count": zeros(1).int(), "x": randint(1, 999, (1000,)).int()}
            | {"n": 1000}
        ),
        lambda x: {"out": torch.cat([x[x % 2 == 0].sort().values, torch.full((int((x % 2).sum()),), -1)]).int()},
        launch=filtered,
    ),
    Case(
        "work.cu",
        "collatz",
        lambda: {"start": arange(1, 301), "steps": blank(300, dtype=torch.int32), "n": 300},
        expected.collatz,
        grid=(5,),
        block=(64,),
    ),
    Case(
        "work.cu",
        "sieve",
        lambda: {"counts": blank(9, dtype=torch.int32), "segment": 1000},
        expected.primes,
        grid=(9,),
        block=(64,),
        shared_mem=1000,
    ),
    Case(
        "work.cu",
        "kmeans_assign",
        lambda: {
            "points": randn(500, 3),
            "centres": randn(7, 3),
            "label": blank(500, dtype=torch.int32),
            "sums": zeros(7, 3),
            "counts": zeros(7).int(),
            "n": 500,
            "k": 7,
        },
        expected.clusters,
        grid=(4,),
        block=(128,),
        options=("-DDIMS=3",),
        shared_mem=7 * (3 + 3 + 1) * 4,
    ),
)
