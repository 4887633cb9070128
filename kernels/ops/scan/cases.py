"""The inputs that a scan is checked and timed on."""

from kernels.operation import Case
from kernels.row_cases import each, row_cases

CASES: dict[str, tuple[Case, ...]] = row_cases(edge=(*each((1, 8_192), (1, 8_193), (70, 4_096)), Case((2, 65_537))))
CASES |= {"bench": (*CASES["bench"][1:], Case((64, 2**20), "float32"), Case((64, 2**20), "bfloat16"))}
