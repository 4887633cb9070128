"""To which lengths sequences are padded: chosen from the lengths that were seen."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

STRATEGIES = ("optimal", "powers of two", "uniform", "longest")


@dataclass(frozen=True)
class Buckets:
    """Lengths in ascending order; a sequence is padded to the first that is not shorter.

    ValueError: no lengths, one below 1, or lengths in another order.
    """

    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.lengths or self.lengths[0] < 1 or list(self.lengths) != sorted(set(self.lengths)):
            raise ValueError(f"lengths: got {self.lengths}, expected at least one, from 1 on, in ascending order")

    @classmethod
    def fit(
        cls,
        samples: Iterable[int],
        count: int = 8,
        multiple_of: int = 8,
        max_padding: float | None = None,
        strategy: str = "optimal",
    ) -> "Buckets":
        """The buckets for lengths like the samples.

        Args:
            samples: lengths that were met, each as often as it was.
            count: how many buckets at most; with max_padding, how many are tried at most.
            multiple_of: every bucket is, for the tiles of matrix products.
            max_padding: the fewest buckets whose padding is at most this part of the samples' own tokens; None for `count`.
            strategy: "optimal" pads least (dynamic programming over the distinct lengths); "powers of two"; "uniform" steps up
                to the longest; "longest" pads all to one length.

        Raises:
            ValueError: no samples, another strategy, a length or a number below 1, or a max_padding that `count` buckets
                do not reach, with what they reach.
        """
        seen = Counter(samples)
        if not seen or min(seen) < 1:
            raise ValueError(
                f"samples: got {'none' if not seen else f'a length of {min(seen)}'}, expected lengths from 1 on"
            )
        if count < 1 or multiple_of < 1:
            raise ValueError(f"count, multiple_of: got {count} and {multiple_of}, expected at least 1")
        if strategy not in STRATEGIES:
            raise ValueError(f"strategy: got {strategy!r}, expected one of {', '.join(STRATEGIES)}")
        if max_padding is None:
            return cls(_chosen(seen, count, multiple_of, strategy))
        for fewer in range(1, count + 1):
            found = cls(_chosen(seen, fewer, multiple_of, strategy))
            if found.padding(seen.elements()) <= max_padding:
                return found
        raise ValueError(
            f"max_padding: got {max_padding:g}, and {count} buckets pad by {found.padding(seen.elements()):.3g}; "
            "allow more padding or a larger count"
        )

    def of(self, length: int) -> int:
        """The bucket of a length.

        Raises:
            ValueError: it is longer than the longest bucket.
        """
        for bucket in self.lengths:
            if length <= bucket:
                return bucket
        raise ValueError(f"length: got {length}, expected at most {self.lengths[-1]}; fit buckets to longer samples")

    def padding(self, samples: Iterable[int]) -> float:
        """Padded tokens as a part of the samples' own."""
        seen = Counter(samples)
        return sum(self.of(length) * times for length, times in seen.items()) / seen_tokens(seen) - 1


def seen_tokens(seen: Counter[int]) -> int:
    return sum(length * times for length, times in seen.items())


def _chosen(seen: Counter[int], count: int, multiple: int, strategy: str) -> tuple[int, ...]:
    up = {length: -(-length // multiple) * multiple for length in seen}
    longest = max(up.values())
    if strategy == "longest":
        return (longest,)
    if strategy == "uniform":
        return tuple(sorted({-(-longest * step // (count * multiple)) * multiple for step in range(1, count + 1)}))
    if strategy == "powers of two":
        needed = {min(max(1 << (length - 1).bit_length(), multiple), longest) for length in up.values()}
        return tuple(sorted({-(-one // multiple) * multiple for one in needed}))
    return _optimal(Counter({ends: sum(seen[s] for s in seen if up[s] == ends) for ends in up.values()}), count)


def _optimal(seen: Counter[int], count: int) -> tuple[int, ...]:
    """At most `count` of the lengths, such that the sum of all lengths padded is least: over the distinct lengths in order,
    the least sum with j buckets of which the last ends here."""
    lengths = sorted(seen)
    before = [0]
    for length in lengths:
        before.append(before[-1] + seen[length])
    least = [inf] * (len(lengths) + 1)
    least[0] = 0
    cuts: list[list[int]] = []
    for _ in range(min(count, len(lengths))):
        row, cut = [inf] * (len(lengths) + 1), [0] * (len(lengths) + 1)
        row[0] = 0
        for end in range(1, len(lengths) + 1):
            row[end], cut[end] = min(
                (least[begin] + (before[end] - before[begin]) * lengths[end - 1], begin) for begin in range(end)
            )
        least = row
        cuts.append(cut)
    found, end = [], len(lengths)
    for cut in reversed(cuts):
        if end:
            found.append(lengths[end - 1])
            end = cut[end]
    return tuple(reversed(found))
