"""What the compiler makes of a Triton kernel, read from its machine code without a GPU."""

import pytest

import kernels
from kernels.operation import Case
from kernels.triton import machine_code
from kernels.triton.machine_code import MachineCode

OP = kernels.operation("layer_norm")
BARE = {"weight": None, "bias": None}


def test_opcodes_are_read_with_and_without_a_condition():
    lines = ("Function:k", "--:-:1:-:2\tLDG.E.128 R4, [R2];", "--:-:-:-:1\t@!P0 LDG.E.U16 R1, [R2];", "\tLDGSTS.E R1;")
    code = MachineCode("k", {}, "\n".join(lines))
    assert code.opcodes == {"LDG.E.128": 1, "LDG.E.U16": 1, "LDGSTS.E": 1}
    assert (code.count("LDG"), code.count("LDG.128"), code.count("LDG.12")) == (2, 1, 0)


def test_machine_code_follows_the_case():
    cases = [Case((2, 1000), "bfloat16"), Case((2, 1008), "bfloat16"), Case((0, 64)), Case((2, 1008), params=BARE)]
    (unknown,), (known,), empty, (bare,) = machine_code.triton(OP, OP["triton/row"], cases)
    assert unknown.kernel == known.kernel
    # Only a width that 16 divides is known to start every row at a multiple of 16 bytes.
    assert known.count("LDG") == known.count("LDG.128") > 0
    assert unknown.count("LDG.128") == 0 < unknown.count("LDG.U16")
    assert empty == []  # nothing is launched
    assert 0 < bare.count("LDG") < known.count("LDG")


def test_other_levels_are_refused():
    with pytest.raises(ValueError, match="'cuda/block' of level 5, expected one of level 4"):
        machine_code.triton(OP, OP["cuda/block"], [Case((2, 64))])


def test_what_the_process_says_when_it_fails_is_passed_on():
    with pytest.raises(RuntimeError, match="(?s)triton/row was not compiled.*values: got 'unheard'"):
        machine_code.triton(OP, OP["triton/row"], [Case((2, 64), values="unheard")])
