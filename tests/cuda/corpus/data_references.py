"""What the kernels of data, text and work must compute, in plain Python and NumPy."""

import heapq

import numpy as np
import torch


def csr_product(ptr, cols, vals, x):
    row = torch.repeat_interleave(torch.arange(75), ptr.diff())
    return {"y": torch.zeros(75).double().index_add(0, row, vals * x[cols])}


def coo_product(entries, x):
    entries = entries.numpy().view([("row", "i4"), ("col", "i4"), ("value", "f8")])[:, 0]
    y = np.zeros(30)
    np.add.at(y, entries["row"], entries["value"] * x.numpy()[entries["col"]])
    return {"y": torch.from_numpy(y)}


def depths(ptr, cols, depth):
    ptr, cols, found = ptr.tolist(), cols.tolist(), depth.tolist()
    frontier = [7]
    while frontier:
        following = []
        for vertex in frontier:
            for other in cols[ptr[vertex] : ptr[vertex + 1]]:
                if found[other] < 0:
                    found[other] = found[vertex] + 1
                    following.append(other)
        frontier = following
    return {"depth": torch.tensor(found, dtype=torch.int32)}


def shortest_paths(dist):
    lengths, found = dist.tolist(), []
    for start in range(len(lengths)):
        best, queue = lengths[start][:], [(0, start)]
        best[start] = 0
        queue += [(length, to) for to, length in enumerate(best)]
        heapq.heapify(queue)
        while queue:
            so_far, at = heapq.heappop(queue)
            if so_far > best[at]:
                continue
            for to, length in enumerate(lengths[at]):
                if so_far + length < best[to]:
                    best[to] = so_far + length
                    heapq.heappush(queue, (best[to], to))
        found.append(best)
    return {"dist": torch.tensor(found, dtype=torch.int16)}


def compacted(x):
    kept = x[x > 0.5]
    return {
        "out": torch.cat([kept, torch.full((1000 - len(kept),), torch.nan)]),
        "count": torch.tensor([len(kept)]).int(),
    }


def philox(counter, key):
    """Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011): Philox 4x32-10."""
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [second >> 32 ^ c[1] ^ k[0], second & 0xFFFFFFFF, first >> 32 ^ c[3] ^ k[1], first & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def dropped(x):
    assert philox((0, 0, 0, 0), (0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # of the paper's own tests
    numbers = [n for i in range(251) for n in philox((i, 5, 0, 0), (0x56789ABC, 0x1234))][:1001]
    kept = torch.tensor(numbers).double() / 2**32 >= 0.25
    return {"y": torch.where(kept, x / 0.75, 0), "mask": kept.byte()}


def darts():
    state = np.arange(5 * 96, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(12345)
    hits = 0
    for _ in range(50):
        squares = np.zeros(len(state), np.uint64)
        for _ in range(2):
            state ^= state << np.uint32(13)
            state ^= state >> np.uint32(17)
            state ^= state << np.uint32(5)
            squares += (state >> np.uint32(16)).astype(np.uint64) ** 2
        hits += int((squares < 2**32).sum())
    return {"hits": torch.tensor([hits])}


def normal_pairs():
    state = np.uint64(42) + np.arange(301, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    numbers = []
    for _ in range(2):
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        numbers.append((state >> np.uint64(40)).astype(float))
    radius, angle = np.sqrt(-2 * np.log((numbers[0] + 1) / 2**24)), 2 * np.pi * numbers[1] / 2**24
    return {"out": torch.from_numpy(np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1))}


def unsigned(x):
    return [value & 0xFFFFFFFF for value in x.tolist()]


def int32(values):
    return torch.from_numpy(np.array(values, np.uint64).astype(np.uint32).view(np.int32))


def upper(text):
    return {"text": torch.tensor(list(bytes(text.tolist()).upper().replace(b"\t", b" ")), dtype=torch.int8)}


def found(text, pattern):
    text, pattern = bytes(text.tolist()), bytes(pattern.tolist())
    return {"match": torch.tensor([text.startswith(pattern, at) for at in range(len(text))]).byte()}


def fnv1a(data):
    hashes = []
    for row in data.tolist():
        value = 0xCBF29CE484222325
        for byte in row:
            value = (value ^ byte) * 0x100000001B3 & (2**64 - 1)
        hashes.append(value)
    return {"hashes": torch.from_numpy(np.array(hashes, np.uint64).view(np.int64))}


def bit_facts(a, b):
    rows = [
        ((x ^ y).bit_count(), x.bit_length() - 1, (y & -y).bit_length(), int(f"{x:032b}"[::-1], 2))
        for x, y in zip(unsigned(a), unsigned(b), strict=True)
    ]
    return {"facts": int32(rows)}


def byte_lanes(a, b):
    pairs = list(zip(unsigned(a), unsigned(b), strict=True))

    def mean(x, y):
        return int.from_bytes((p + q + 1) // 2 for p, q in zip(x.to_bytes(4), y.to_bytes(4), strict=True))

    return {
        "swapped": int32([int.from_bytes(x.to_bytes(4), "little") for x, _ in pairs]),
        "mean": int32([mean(x, y) for x, y in pairs]),
        "shifted": int32([((y << 32 | x) << (i & 31)) >> 32 & 0xFFFFFFFF for i, (x, y) in enumerate(pairs)]),
    }


def edit_distances(a, b):
    distances = []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        row = list(range(len(y) + 1))
        for i, p in enumerate(x):
            above, row = row, [i + 1]
            for j, q in enumerate(y):
                row.append(min(row[j] + 1, above[j + 1] + 1, above[j] + (p != q)))
        distances.append(row[-1])
    return {"out": torch.tensor(distances).int()}


def collatz(start):
    def steps(n):
        count = 0
        while n != 1:
            n, count = 3 * n + 1 if n % 2 else n // 2, count + 1
        return count

    return {"steps": torch.tensor([steps(n) for n in start.tolist()]).int()}


def primes():
    prime = [n > 1 and all(n % p for p in range(2, int(n**0.5) + 1)) for n in range(9000)]
    return {"counts": torch.tensor(prime).view(9, 1000).sum(1).int()}


def clusters(points, centres):
    label = torch.cdist(points, centres).argmin(1)
    sums = torch.zeros_like(centres).index_add(0, label, points)
    return {"label": label.int(), "sums": sums, "counts": torch.bincount(label, minlength=7).int()}
