"""Sorting, graphs, indexing, text, random numbers and blocks that take work."""

import numpy as np
import torch
from torch import arange, randint, randn, randperm, zeros

from corpus import data_references as expected
from corpus.case import Case, blank


def bitonic(module, a):
    for k in (2**p for p in range(1, 10)):
        for j in (k >> s for s in range(1, k.bit_length())):
            module.get_function("bitonic_sort_step")((4,), (128,), (a["x"], j, k))


def csr(rows, cols, density, dtype):
    present = torch.rand(rows, cols) < density
    ptr = torch.cat([zeros(1), present.sum(1).cumsum(0)]).int()
    return ptr, present.nonzero()[:, 1].int(), randn(int(present.sum()), dtype=dtype)


def csr_args(dtype, order, **scalars):
    ptr, cols, vals = csr(75, 60, 0.2, dtype)
    named = {"ptr": ptr, "cols": cols, "vals": vals, "x": randn(60, dtype=dtype), "y": blank(75, dtype=dtype)}
    return {"rows": 75} | {name: named[name] for name in order}


def coo_args():
    entries = np.zeros(400, [("row", "i4"), ("col", "i4"), ("value", "f8")])
    entries["row"], entries["col"], entries["value"] = randint(0, 30, (400,)), randint(0, 40, (400,)), randn(400)
    return {
        "entries": torch.from_numpy(entries.view(np.int64).reshape(400, 2).copy()),
        "n": 400,
        "x": randn(40).double(),
        "y": zeros(30).double(),
    }


def bfs_args():
    ptr, cols, _ = csr(300, 300, 0.008, torch.float32)
    depth = torch.full((300,), -1, dtype=torch.int32)
    depth[7] = 0
    queues = {name: torch.full((300,), 7, dtype=torch.int32) for name in ("frontier", "next")}
    return {"ptr": ptr, "cols": cols, "depth": depth, **queues, "size": zeros(1, dtype=torch.int32)}


def bfs(module, a):
    frontier, following, size, level = a["frontier"], a["next"], 1, 0
    while size:
        level += 1
        args = (a["ptr"], a["cols"], a["depth"], frontier, size, following, a["size"].zero_(), level)
        module.get_function("bfs_level")((-(-size // 64),), (64,), args)
        frontier, following, size = following, frontier, int(a["size"])


def shortest_paths(module, a):
    for k in range(a["n"]):
        module.get_function("floyd_warshall")((2, a["n"]), (32,), (a["dist"], a["n"], k))


def distances():
    lengths = torch.where(torch.rand(45, 45) < 0.15, randint(1, 99, (45, 45)), 9999)
    return lengths.fill_diagonal_(0).to(torch.int16)


def ints(*shape, fill=0):
    return torch.full(shape, fill, dtype=torch.int32)


CASES = (
    Case("sort.cu", "bitonic_sort_step", lambda: {"x": randn(512)}, lambda x: {"x": x.sort().values}, launch=bitonic),
    Case(
        "sort.cu",
        "bitonic_pairs<256, float, int>",
        lambda: {"keys": randn(3, 201), "values": arange(603).int(), "n": 201, "filler": np.float32(3e38)},
        lambda keys: {
            "keys": keys.sort(1).values,
            "values": (keys.argsort(1) + arange(3)[:, None] * 201).int().view(-1),
        },
        grid=(3,),
        block=(64,),
    ),
    Case(
        "sort.cu",
        "bitonic_pairs<128, unsigned, float, true>",
        lambda: {"keys": randperm(1000)[:100].int() + 1, "values": randn(100), "n": 100, "filler": 0},
        lambda keys, values: {
            "keys": keys.sort(descending=True).values,
            "values": values[keys.argsort(descending=True)],
        },
        block=(64,),
    ),
    Case(
        "sort.cu",
        "odd_even",
        lambda: {"x": randint(-99, 99, (201,)).int(), "n": 201},
        lambda x: {"x": x.sort().values},
        block=(64,),
        shared_mem=804,
    ),
    Case(
        "sort.cu",
        "radix_sort_block",
        lambda: {"x": randint(0, 2**31 - 1, (500,)).int(), "n": 500},
        lambda x: {"x": x.sort().values},
        block=(512,),
    ),
    Case(
        "sort.cu",
        "merge_by_rank",
        lambda: {
            "a": randint(0, 300, (201,)).float().sort().values,
            "na": 201,
            "b": randint(0, 300, (100,)).float().sort().values,
            "nb": 100,
            "out": blank(301),
        },
        lambda a, b: {"out": torch.cat([a, b]).sort().values},
        grid=(3,),
        block=(128,),
    ),
    Case(
        "graphs.cu",
        "csr_spmv_scalar<int, double>",
        lambda: csr_args(torch.float64, ("cols", "ptr", "vals", "x", "y")),
        expected.csr_product,
        grid=(3,),
        block=(32,),
    ),
    Case(
        "graphs.cu",
        "csr_spmv_vector<8>",
        lambda: csr_args(torch.float32, ("ptr", "cols", "vals", "x", "y")),
        expected.csr_product,
        grid=(10,),
        block=(64,),
    ),
    Case("graphs.cu", "coo_spmv", coo_args, expected.coo_product, grid=(2,), block=(128,)),
    Case("graphs.cu", "bfs_level", bfs_args, expected.depths, launch=bfs),
    Case(
        "graphs.cu",
        "floyd_warshall",
        lambda: {"dist": distances(), "n": 45},
        expected.shortest_paths,
        launch=shortest_paths,
    ),
    Case(
        "indexing.cu",
        "encoder_forward",
        lambda: {
            "out": blank(3, 7, 20),
            "tokens": randint(0, 30, (3, 7)).int(),
            "wte": randn(30, 20),
            "wpe": randn(9, 20),
            "B": 3,
            "T": 7,
            "C": 20,
        },
        lambda tokens, wte, wpe: {"out": wte[tokens] + wpe[:7]},
        grid=(2,),
        block=(64,),
    ),
    Case(
        "indexing.cu",
        "encoder_backward",
        lambda: {
            "dwte": randn(9, 20),
            "dwpe": zeros(7, 20),
            "dout": randn(3, 7, 20),
            "tokens": randint(0, 9, (3, 7)).int(),
            "B": 3,
            "T": 7,
            "C": 20,
        },
        lambda dwte, dout, tokens: {
            "dwte": dwte.index_add(0, tokens.view(-1), dout.view(21, 20)),
            "dwpe": dout.sum(0),
        },
        grid=(4,),
        block=(128,),
    ),
    Case(
        "indexing.cu",
        "gather_rows<double>",
        lambda: {
            "table": randn(11, 45).double(),
            "rows": randint(-1, 11, (30,)),
            "out": blank(30, 45, dtype=torch.float64),
            "width": 45,
        },
        lambda table, rows: {"out": torch.where(rows[:, None] < 0, 0, table[rows])},
        grid=(30,),
        block=(32,),
    ),
    Case(
        "indexing.cu",
        "scatter_max",
        lambda: {"x": randn(700), "slot": randint(0, 9, (700,)).int(), "out": torch.full((9,), -3e38), "n": 700},
        lambda x, slot: {"out": zeros(9).double().scatter_reduce(0, slot.long(), x, "amax", include_self=False)},
        grid=(2,),
        block=(128,),
    ),
    Case(
        "indexing.cu",
        "compact_ordered",
        lambda: {"x": randn(1000), "out": blank(1000), "count": ints(1, fill=-1), "n": 1000, "t": np.float32(0.5)},
        expected.compacted,
        block=(128,),
    ),
    Case(
        "random.cu",
        "dropout_philox",
        lambda: {
            "x": randn(1001),
            "y": blank(1001),
            "mask": blank(1001, dtype=torch.uint8),
            "n": 1001,
            "p": np.float32(0.25),
            "seed": 0x123456789ABC,
            "offset": 5,
        },
        expected.dropped,
        grid=(4,),
        block=(64,),
    ),
    Case(
        "random.cu",
        "pi_darts",
        lambda: {"hits": zeros(1, dtype=torch.int64), "throws": 50},
        expected.darts,
        grid=(5,),
        block=(96,),
    ),
    Case(
        "random.cu",
        "normal_pairs",
        lambda: {"out": blank(301, 2), "n": 301, "seed": 42},
        expected.normal_pairs,
        grid=(3,),
        block=(128,),
    ),
)
