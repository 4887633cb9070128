"""What this machine can do at most: the rate of a large copy and of a large matrix product."""

import torch

from kernels.case import Cost
from kernels.measure.timing import spread, time_together


def ceilings(device: str) -> dict[str, float]:
    """The copy rate in GB/s, bytes read and written counted, and the matrix rate in TFLOP/s.

    On a GPU: 8.6 GB moved, and bfloat16 8192³. On a CPU: 0.27 GB moved, and float32 1024³.
    """
    on_gpu = device == "cuda"
    copied = 2**32 if on_gpu else 2**27
    n, dtype = (8192, torch.bfloat16) if on_gpu else (1024, torch.float32)

    def inputs(seed: int) -> dict[str, torch.Tensor]:
        # Random data: zeros draw less power and run at higher clocks.
        random = torch.Generator(device).manual_seed(seed)
        a, b = (torch.randn(n, n, generator=random, device=device).to(dtype) for _ in "ab")
        words = torch.randint(-(2**63), 2**63 - 1, (copied // 8,), generator=random, device=device)
        source = words.view(torch.int8)  # drawn eight at once
        return {"source": source, "target": torch.empty_like(source), "a": a, "b": b}

    contestants = {
        "copy": lambda data: data["target"].copy_(data["source"]),
        "matmul": lambda data: data["a"] @ data["b"],
    }
    times, _, _ = time_together(contestants, inputs, device)
    return {
        "copy_gbps": 2 * copied / spread(times["copy"]).median_ms / 1e6,
        "copy_bytes": 2 * copied,
        "matmul_tflops": 2 * n**3 / spread(times["matmul"]).median_ms / 1e9,
        "matmul_shape": [n, n, n],
        "matmul_dtype": str(dtype).removeprefix("torch."),
    }


def compute_bound(cost: Cost, ceilings: dict[str, float]) -> bool:
    """Whether the operations take longer at the matrix rate than the bytes at the copy rate. `ceilings` as above."""
    return cost.flops / (1e3 * ceilings["matmul_tflops"]) > cost.bytes / ceilings["copy_gbps"]
