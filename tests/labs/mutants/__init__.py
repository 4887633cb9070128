"""One file a lab: MUTANTS, its solution with one mistake each, and ACCEPTED, other solutions that are right."""

from typing import NamedTuple


def with_bits_of_a_half(value: str) -> str:
    """A float in CUDA C, without the bits that a half has not."""
    return f"__int_as_float(__float_as_int({value}) & 0xffffe000)"


class Mutant(NamedTuple):
    """A mistake: `search`, which stands once in the solution of `exercise`, becomes `replace`.

    broken: the property that names the cause. It must be the first that is broken, which is the one that a learner reads.
    on_a_gpu: what may come before it there, where values and times are those of the GPU.
    """

    exercise: str
    mistake: str
    search: str
    replace: str
    broken: str
    on_a_gpu: tuple[str, ...] = ()
