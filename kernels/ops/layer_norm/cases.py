"""The inputs that layer norm is checked and timed on."""

import math

import torch

from kernels.machine import Machine
from kernels.operation import Case
from kernels.row_cases import each, generator, row_cases, rows, strided, vector

MOST_ATOMICS = 128

CASES = row_cases(
    edge=(
        *each((4, 96), params={"eps": 0.1}),
        *each((3, 1000), params={"eps": 1e-2}),
        *each((4, 96), params={"weight": None}),
        *each((4, 96), params={"bias": None}),
        *each((4, 96), params={"weight": None, "bias": None}),
    )
)


def make_inputs(case: Case, device: str) -> dict[str, torch.Tensor]:
    """x with a mean and outliers, weight around 1, bias around 0; the case's params replace or join them."""
    random = generator(case, device)
    inputs = {"x": rows(case, random)}
    inputs["weight"] = strided(vector(case, random, mean=1), case)
    inputs["bias"] = vector(case, random, mean=0)
    if case.layout in ("rows", "transposed"):  # then it does not start where its allocation does
        inputs["bias"] = torch.cat([inputs["bias"][:1], inputs["bias"]])[1:]
    return inputs | dict(case.params)


def too_many_atomics(case: Case, machine: Machine) -> str | None:
    """Why sums over the rows by atomic additions are not accurate enough on a case, if they are not."""
    if case.dtype == "float32" and math.prod(case.shape[:-1]) > MOST_ATOMICS:
        return f"in float32, more than {MOST_ATOMICS} atomic additions in an order left to chance round too much"
    return None
