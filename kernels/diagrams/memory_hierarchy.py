"""The memories of an H200, from the registers of a thread to the memory of the GPU."""

from dataclasses import dataclass

from kernels.diagrams.canvas import Canvas
from kernels.diagrams.diagram import Diagram, Step
from kernels.hardware import REFERENCE, REFERENCE_MULTIPROCESSORS, WARP
from kernels.measure.recorded import accesses
from kernels.measure.results import stored

_H200 = "NVIDIA H200"
_REGISTER = 4  # bytes
# NVIDIA, Hopper Tuning Guide: 256 KB of L1 cache, texture cache and shared memory a multiprocessor, 50 MB of L2 cache.
_L1_BYTES = 256 << 10
_L2_MB = 50
# NVIDIA, H200 data sheet.
_MEMORY_GB = 141
# Clock cycles of a load on a GH200, the same chip: markdewing/AI_kernels, latency/README.md. NVIDIA does not state them.
_L1_CYCLES, _L2_CYCLES = 40, 281
_SOURCES = (
    "Latencies of L1 and L2: measured by others, github.com/markdewing/AI_kernels, on a GH200.",
    "Rates, and the latency of memory: measured on an H200 for this course.",
)
_LOADS = 512  # of each thread of the chains, one after the other


@dataclass(frozen=True)
class _Memory:
    name: str
    of: str  # who shares it
    size: str
    rate: str
    latency: str


def memory_hierarchy() -> Diagram:
    """Registers, shared memory and L1 cache, L2 cache and memory, with sizes, rates and latencies.

    Sizes: `kernels.hardware`, NVIDIA's Hopper Tuning Guide (L1 and L2 caches) and the data sheet of the H200 (memory). Rates
    and the latency of the memory are our record of an H200 in book/results: loads of shared memory without conflicts, the
    copy of 8.6 GB, and chains of dependent loads, in which each of the 32 lanes reads somewhere else in 512 MiB. NVIDIA
    states neither the rates of registers and the L2 cache nor latencies: those of L1 and L2, in cycles, were measured by
    others on a GH200 (github.com/markdewing/AI_kernels), and the drawing says so.
    """
    registers = REFERENCE.registers_per_multiprocessor * _REGISTER
    shared = REFERENCE.shared_bytes_per_multiprocessor
    memories = [
        _Memory(
            "registers",
            "a thread's own",
            f"{registers >> 10} KB a multiprocessor, {REFERENCE.registers_per_thread} a thread",
            "rate not measured",
            "none to wait for",
        ),
        _Memory(
            "shared memory, L1",
            "shared by a block",
            f"{_L1_BYTES >> 10} KB a multiprocessor, {shared >> 10} KB of it shared at most",
            f"{_shared_rate():.1f} TB/s",
            f"about {_L1_CYCLES} cycles (GH200)",
        ),
        _Memory(
            "L2 cache",
            "shared by all blocks",
            f"{_L2_MB} MB",
            "rate not published",
            f"about {_L2_CYCLES} cycles (GH200)",
        ),
        _Memory(
            "memory (HBM3e)",
            "stays between kernels",
            f"{_MEMORY_GB} GB",
            f"{_copy_rate():.2f} TB/s",
            f"{_memory_ns():.0f} ns, {WARP} threads, each reading elsewhere",
        ),
    ]
    said = [f"{one.name} ({one.of}): {one.size}; {one.rate}; latency {one.latency}" for one in memories]
    words = ". ".join(said) + f". Rates are of the {REFERENCE_MULTIPROCESSORS} multiprocessors together. "
    words += " ".join(_SOURCES)
    return Diagram("The memories of an H200", [Step("", words, _canvas(memories))])


def _shared_rate() -> float:
    """TB/s, of loads of a float by each lane."""
    case = next(row for row in accesses.stored(_H200)["groups"]["shared strides"] if row["case"] == 1)
    return case["n"] * 256 * 4096 * 4 / case["median_us"] / 1e6


def _copy_rate() -> float:
    results = stored("layer_norm", _H200)
    assert results
    return results.ceilings["copy_gbps"] / 1e3


def _memory_ns() -> float:
    return accesses.times(_H200, "chains")[1, 1] * 1e3 / _LOADS


def _canvas(memories: list[_Memory]) -> Canvas:
    """Wider boxes hold more and are slower: a pyramid, with the chip's outline around all but the last."""
    canvas = Canvas(640, 418)
    canvas.rect(1, 30, 638, 262, "idle", 6)
    canvas.text(12, 44, "on the chip", "small", "start")
    canvas.text(320, 12, f"{REFERENCE_MULTIPROCESSORS} multiprocessors compute", "small")
    for number, one in enumerate(memories):
        width = 380 + 76 * number
        x, y = 320 - width / 2, 40 + 84 * number + (18 if number == 3 else 0)
        canvas.rect(x, y, width, 64, "used" if number < 3 else "strong", 4)
        canvas.text(x + 12, y + 16, one.name, "bold", "start")
        canvas.text(x + width - 12, y + 16, one.of, "", "end")
        canvas.text(x + 12, y + 35, one.size, "small", "start")
        canvas.text(x + 12, y + 51, f"latency: {one.latency}", "small", "start")
        canvas.text(x + width - 12, y + 43, one.rate, "bold" if one.rate[0].isdigit() else "small", "end")
        if number:
            canvas.arrow(320, y - 2, 320, y - 20 if number < 3 else y - 38, "plain")
    for line, words in enumerate(_SOURCES):
        canvas.text(12, 394 + 16 * line, words, "small", "start")
    return canvas
