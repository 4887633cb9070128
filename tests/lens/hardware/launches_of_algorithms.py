"""Launches of whole algorithms: branches, reductions, histograms, products, stencils, rows."""

from __future__ import annotations

import numpy as np
import torch

from .launch import Launch

N = 4096


def _launch(kernel, file, grid, block, args, shared_mem=0, name=None, wide_atomics=False):
    grid = grid if isinstance(grid, tuple) else (grid,)
    block = block if isinstance(block, tuple) else (block,)
    return Launch(name or kernel, file, kernel, grid, block, args, shared_mem, wide_atomics)


def _csr(d):
    lengths = np.arange(300) * 7 % 12
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    entries = int(starts[-1])
    return d.given(starts), d.integers(0, 500, entries), d.normal(entries), d.normal(500), d.zeros(300), 300


def _keys(n, bins):
    return lambda d: (d.integers(0, bins, n), d.zeros(bins, torch.int32), n)


BRANCHES = (
    *(
        _launch(
            "every",
            "branches.cu",
            16,
            256,
            lambda d, period=period: (d.normal(N), d.zeros(N), period, N),
            name=f"every {period}",
        )
        for period in (2, 3, 32, 64)
    ),
    *(
        _launch(
            "either",
            "branches.cu",
            4,
            256,
            lambda d, border=border: (d.normal(1000), d.normal(2000), d.zeros(1000), border, 1000),
            name=f"either {border}",
        )
        for border in (0, 5, 16)
    ),
    _launch("negative", "branches.cu", 4, 256, lambda d: (d.normal(1000), d.normal(1000), d.zeros(1000), 1000)),
    _launch("own_length", "branches.cu", 4, 128, lambda d: (d.normal(800), d.zeros(500), 7, 500), name="own length 7"),
    _launch("own_length", "branches.cu", 4, 128, lambda d: (d.normal(800), d.zeros(500), 3, 500), name="own length 3"),
    _launch("own_length_unrolled", "branches.cu", 4, 128, lambda d: (d.normal(800), d.zeros(500), 7, 500)),
    _launch("csr", "branches.cu", 3, 128, _csr),
    _launch(
        "lower_bound",
        "branches.cu",
        4,
        128,
        lambda d: (d.sorted(1000), d.normal(500), d.zeros(500, torch.int32), 1000, 500),
    ),
    _launch(
        "first_at_least",
        "branches.cu",
        4,
        128,
        lambda d: (d.integers(0, 100, 8000), d.zeros(500, torch.int32), 70, 16, 500),
    ),
)

REDUCTIONS = (
    _launch("tree_interleaved", "reductions.cu", 8, 256, lambda d: (d.normal(2048), d.zeros(8)), 1024),
    _launch("tree_conflicts", "reductions.cu", 8, 256, lambda d: (d.normal(2048), d.zeros(8)), 1024),
    _launch("tree_sequential", "reductions.cu", 8, 256, lambda d: (d.normal(2000), d.zeros(8), 2000), 1024),
    _launch("shuffles", "reductions.cu", 3, 256, lambda d: (d.normal(N), d.zeros(3), N)),
    _launch("atomics", "reductions.cu", 8, 256, lambda d: (d.normal(2000), d.zeros(1), 2000)),
    _launch("atomic_per_warp", "reductions.cu", 8, 256, lambda d: (d.normal(2000), d.zeros(1), 2000)),
    _launch("argmax", "reductions.cu", 4, 256, lambda d: (d.normal(4000), d.zeros(4), d.zeros(4, torch.int32), 1000)),
)

HISTOGRAMS = (
    _launch("global_bins", "histograms.cu", 8, 256, _keys(2000, 10), name="histogram of 10 global bins"),
    _launch(
        "global_bins",
        "histograms.cu",
        8,
        256,
        _keys(2000, 1000),
        name="histogram of 1000 global bins",
        wide_atomics=True,
    ),
    _launch("global_bins", "histograms.cu", 8, 256, _keys(2000, 100), name="histogram of 100 global bins"),
    _launch(
        "shared_bins",
        "histograms.cu",
        3,
        256,
        lambda d: (d.integers(0, 100, 3000), d.zeros(100, torch.int32), 100, 3000),
        400,
        "histogram of 100 shared bins",
    ),
    _launch(
        "byte_bins",
        "histograms.cu",
        4,
        128,
        lambda d: (d.integers(0, 256, 2000, torch.uint8), d.zeros(256, torch.int32), 500),
        wide_atomics=True,
    ),
    _launch(
        "byte_bins",
        "histograms.cu",
        4,
        128,
        lambda d: (d.integers(0, 60, 2000, torch.uint8), d.zeros(60, torch.int32), 500),
        name="byte_bins below 60",
    ),
    _launch(
        "append",
        "histograms.cu",
        4,
        256,
        lambda d: (d.normal(1000), d.zeros(1000), d.permutation(1000), 1000),
    ),
    _launch(
        "largest",
        "histograms.cu",
        4,
        256,
        lambda d: (d.integers(0, 50, 1000), d.integers(0, 1000, 1000), d.zeros(50, torch.int32), 1000),
    ),
    _launch(
        "shared_float_bins",
        "histograms.cu",
        4,
        256,
        lambda d: (d.integers(0, 64, 1000), d.normal(1000), d.zeros(64), 1000),
    ),
)

MATMULS = tuple(
    _launch(
        kernel,
        "matmul.cu",
        (64 // tile, 64 // tile),
        (tile, tile),
        lambda d: (d.normal(N), d.normal(N), d.zeros(N), 64),
        name=f"matmul {kernel}",
    )
    for kernel, tile in (
        ("naive", 16),
        ("naive_unrolled", 32),
        ("tiled<16>", 16),
        ("tiled<32>", 32),
        ("tiled_unrolled<16>", 16),
        ("tiled_transposed<16>", 16),
    )
)

STENCILS = (
    _launch("line_global", "stencils.cu", 8, 256, lambda d: (d.normal(2000), d.zeros(2000), 2000)),
    _launch("line_shared", "stencils.cu", 8, 256, lambda d: (d.normal(2000), d.zeros(2000), 2000)),
    *(
        _launch(
            kernel,
            "stencils.cu",
            (4, 5),
            (16, 16),
            lambda d: (d.normal(70 * 60), d.zeros(70 * 60), 70, 60),
        )
        for kernel in ("plane_global", "plane_shared")
    ),
    _launch(
        "plane_global",
        "stencils.cu",
        (2, 18),
        (32, 4),
        lambda d: (d.normal(70 * 60), d.zeros(70 * 60), 70, 60),
        name="plane_global 32 x 4",
    ),
    _launch(
        "blur_bytes",
        "stencils.cu",
        (2, 4),
        (32, 8),
        lambda d: (d.integers(0, 256, 3 * 30 * 50, torch.uint8), d.zeros(3 * 30 * 50, torch.uint8), 30, 50),
    ),
)

INDICES = (
    _launch("gather", "indices.cu", 8, 256, lambda d: (d.normal(2000), d.permutation(2000), d.zeros(2000), 2000)),
    _launch("scatter", "indices.cu", 8, 256, lambda d: (d.normal(2000), d.permutation(2000), d.zeros(2000), 2000)),
    *(
        _launch(
            "scatter_add",
            "indices.cu",
            8,
            256,
            lambda d, into=into: (d.normal(2000), d.integers(0, into, 2000, torch.int64), d.zeros(into), 2000),
            name=f"scatter_add into {into}",
            wide_atomics=into > 200,
        )
        for into in (60, 300)
    ),
    _launch(
        "embedding",
        "indices.cu",
        16,
        64,
        lambda d: (d.normal(50 * 400), d.integers(0, 50, 16, torch.int64), d.zeros(16 * 400), 100),
    ),
    _launch("chase", "indices.cu", 4, 128, lambda d: (d.permutation(500), d.zeros(500, torch.int32), 9, 500)),
)

ROWS = (
    _launch("softmax", "rows.cu", 6, 128, lambda d: (d.normal(6 * 512), d.zeros(6 * 512), 512), 512),
    _launch("softmax", "rows.cu", 6, 128, lambda d: (d.normal(1998), d.zeros(1998), 333), 512, "softmax of 333"),
    _launch(
        "warp_softmax",
        "rows.cu",
        5,
        (32, 4),
        lambda d: (d.normal(19 * 27, torch.float16), d.zeros(19 * 27, torch.float16), 19, 27),
    ),
    _launch("scan_two_buffers", "rows.cu", 4, 256, lambda d: (d.integers(0, 9, 1024), d.zeros(1024, torch.int32))),
    _launch("scan_tree", "rows.cu", 4, 256, lambda d: (d.integers(0, 9, 2048), d.zeros(2048, torch.int32))),
    _launch(
        "rms_norm",
        "rows.cu",
        3,
        (32, 4),
        lambda d: (d.normal(4000), d.normal(400), d.zeros(4000), 10, 100, np.float32(1e-5)),
    ),
    _launch("rope", "rows.cu", 16, 64, lambda d: (d.normal(1600), d.normal(800), d.normal(800), 50)),
    _launch("bitonic", "rows.cu", 4, 256, lambda d: (d.permutation(1024),)),
    _launch("horner", "rows.cu", 4, 256, lambda d: (d.normal(1000), d.normal(1), d.zeros(1000), 6, 1000)),
)

ALGORITHMS = (*BRANCHES, *REDUCTIONS, *HISTOGRAMS, *MATMULS, *STENCILS, *INDICES, *ROWS)
