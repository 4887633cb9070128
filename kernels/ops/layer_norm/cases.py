"""The inputs that layer norm is checked and timed on."""

import math

import torch

from kernels.case import few_rows
from kernels.hardware import REFERENCE_MULTIPROCESSORS
from kernels.machine import Machine
from kernels.operation import Case
from kernels.row_cases import EPS, each, generator, row_cases, rows, strided, vector

MOST_ATOMICS = 128
MANY = REFERENCE_MULTIPROCESSORS // 2 + 1  # rows from which long ones are not divided: see kernels.row_parts
LONG = 8_192  # columns beyond which rows are long

CASES = row_cases(
    edge=(
        *EPS,
        *each((4, 96), params={"weight": None}),
        *each((4, 96), params={"bias": None}),
        *each((4, 96), params={"weight": None, "bias": None}),
        *each((2, LONG - 1)),
        *each((12, 200), (150, 26)),  # few rows, but too many for one block
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


def few(case: Case, rows: int) -> Case:
    """The case with so many rows; where its rows are long and many, with as many as keep them undivided."""
    many = case.shape[-1] > LONG and math.prod(case.shape[:-1]) >= MANY
    return few_rows(case, max(rows, MANY) if many else rows)


def too_many_atomics(case: Case, machine: Machine) -> str | None:
    """Why sums over the rows by atomic additions are not accurate enough on a case, if they are not."""
    if case.dtype == "float32" and math.prod(case.shape[:-1]) > MOST_ATOMICS:
        return f"in float32, more than {MOST_ATOMICS} atomic additions in an order left to chance round too much"
    return None
