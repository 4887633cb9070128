"""The inputs that matrix products are checked and timed on."""

from dataclasses import replace
from typing import Any

import torch

from kernels.hardware import REFERENCE_MULTIPROCESSORS
from kernels.operation import Case, Cost
from kernels.ops.matmul.cuda import LARGE
from kernels.row_cases import each, generator, rows, vector

SHAPES = ((1, 1, 1), (5, 7, 3), (33, 65, 31), (130, 257, 70), (3, 300, 2))  # M, K, N
MODEL = ((64, 256, 768), (48, 512, 128))
TIMED = ((4_096, 4_096, 4_096), (8_192, 8_192, 8_192))
LAYERS = (
    *((4_096, 6_144), (4_096, 4_096), (4_096, 28_672), (14_336, 4_096)),  # Llama 3 8B: q, k and v; o; gate and up; down
    *((768, 2_304), (768, 768), (768, 3_072), (3_072, 768)),  # GPT-2: q, k and v; o; up; down
)  # K, N

ROWS, COLUMNS, *_ = LARGE
MATRICES = -(-REFERENCE_MULTIPROCESSORS // 4)  # with 2×2 large tiles each: one for each multiprocessor
MANY = Case((MATRICES, ROWS + 1, 40), "bfloat16", values="batched", sizes={"N": COLUMNS + 8})


def products(*shapes: tuple[int, ...], **fields: Any) -> tuple[Case, ...]:
    """Cases of (..., M, K, N) in each dtype."""
    return tuple(case for *x, N in shapes for case in each(tuple(x), sizes={"N": N}, **fields))


CASES = {
    "edge": (
        *products(*SHAPES),
        *products((0, 4, 3), (4, 0, 3), (4, 3, 0), (2, 3, 5, 4)),
        *(case for layout in ("rows", "transposed", "expanded") for case in products((40, 72, 24), layout=layout)),
        *products((2, 40, 72, 24), layout="sliced"),
        *products((3, 17, 40, 9), (2, 2, 20, 5, 30), values="batched"),
        *(case for name in ("nonfinite", "large", "small") for case in products((4, 48, 20), values=name)),
        *products((40, 72, 24), params={"activation": "gelu"}),
        *products((3, 17, 40, 9), values="batched", params={"activation": "gelu"}),
        *products((40, 72, 24), (40, 1, 24), params={"bias": None}),
        *products((40, 2_080, 24), params={"activation": "gelu"}),  # few tiles and a long sum
        MANY,
    ),
    "model": products(*MODEL, params={"activation": "gelu"}),
    "repeated": products((40, 4_000, 24)),
    "layers": tuple(Case((1, K), "bfloat16", sizes={"N": N}, params={"bias": None}) for K, N in LAYERS),
    "bench": tuple(Case((M, K), "bfloat16", sizes={"N": N}, params={"bias": None}) for M, K, N in TIMED),
    "counted": (MANY,),
}
CASES["compiled"] = (
    *(case for case in CASES["edge"] if case.dtype == "bfloat16"),
    *CASES["model"],
    *CASES["bench"],
    replace(MANY, shape=(MATRICES, ROWS + 1, COLUMNS + 8)),  # large tiles in the gradients, too
)


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    """x with a mean and outliers, w of 1/sqrt(K) as trained weights have it; "batched" gives each matrix its own w."""
    random, N = generator(case, device), case.sizes["N"]
    batched = case.values == "batched"
    rows_case = Case(case.shape, case.dtype, case.layout, "realistic" if batched else case.values, case.seed)
    x = rows(rows_case, random)
    shape = (*(case.shape[:-2] if batched else ()), case.shape[-1], N)
    normal = torch.randn(shape, generator=random, device=device)
    w = ((normal + 0.1) / max(case.shape[-1], 1) ** 0.5).to(x.dtype)
    if case.layout in ("rows", "transposed"):  # other strides than those of x
        w = w.mT.contiguous().mT
    bias = vector(Case((N,), case.dtype), random, mean=0)
    return {"x": x, "w": w, "bias": bias} | dict(case.params)


def few(case: Case, rows: int) -> Case:
    """With at most 512 columns, 128 rows, where tiles do not grow any more, and 512 products in a sum, unless sums are few.
    Where there are MATRICES, they do grow."""
    *batch, M, K = case.shape
    if batch == [MATRICES]:
        return case
    M, N = min(M, max(rows, 128)), min(case.sizes["N"], 512)
    return replace(case, shape=(*batch, M, K if M * N < 1_024 else min(K, 512)), sizes={"N": N})


def cost(case: Case) -> Cost:
    """Bytes: x, w and bias read once, y written once. Operations: a multiplication and an addition for each of M·K·N."""
    *batch, M, K = case.shape
    N, many = case.sizes["N"], torch.Size(batch).numel()
    w_count = many if case.values == "batched" else 1
    itemsize = getattr(torch, case.dtype).itemsize
    return Cost(bytes=(many * M * (K + N) + w_count * K * N + N) * itemsize, flops=2 * many * M * K * N)


def backward_cost(case: Case) -> Cost:
    """Two products: dy, x and w read once, dx and dw written once."""
    forward = cost(case)
    return Cost(bytes=2 * forward.bytes, flops=2 * forward.flops)
