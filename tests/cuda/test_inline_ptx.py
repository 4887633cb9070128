"""A rung of inline PTX for one GPU, as wgmma and TMA need it: what can be said of it on a machine without that GPU."""

from pathlib import Path

import pytest
import torch
from stored import resources

from kernels import lens
from kernels.case import Case, Cost
from kernels.check import check
from kernels.cuda import CompileError, RawModule
from kernels.hardware import REFERENCE, TARGETS
from kernels.lens.cuda.resources import compiled, own_target
from kernels.machine import Machine
from kernels.operation import Operation, Variant
from kernels.unsupported import needs_feature

SOURCE = Path(__file__).with_name("hopper.cu")
KERNEL = RawModule(path=SOURCE, options=("-arch=sm_90a",)).get_function("add_one")


def add_one(x):
    y = torch.empty_like(x)
    KERNEL((-(-x.numel() // 128),), (128,), (x, y, x.numel()))
    return y


OPERATION = Operation(
    name="add_one",
    reference=lambda x: x.double() + 1,
    baseline=lambda x: x + 1,
    make_inputs=lambda case, device: {"x": torch.arange(float(case.shape[0]), device=device)},
    gradients=(),
    forward=(Variant(5, "wgmma", add_one, "its own registers", (SOURCE,), needs_feature("wgmma")),),
    wrong=(),
    peers=(),
    cost=lambda case: Cost(8 * case.shape[0], case.shape[0]),
    cases={"edge": (), "model": (Case((100,)), Case((1000,))), "bench": ()},
)


def test_it_compiles_for_its_own_target_with_registers_and_no_spill():
    assert own_target(KERNEL) is TARGETS["sm_90a"]
    said = compiled(KERNEL, REFERENCE)  # which does not count
    assert 0 < said["registers"] <= 255 and said["spilled_bytes"] == 0


def test_another_target_refuses_it():
    kernel = RawModule(path=SOURCE).get_function("add_one")
    with pytest.raises(CompileError, match="sm_90"):
        compiled(kernel, REFERENCE)


def test_it_is_stored_for_its_own_target_beside_the_gpu_that_runs_it():
    (compile,) = resources.cuda_kernels(OPERATION, REFERENCE, OPERATION.cases["model"]).values()
    assert compile()[0] == "sm_90a"
    for name in ("sm_80", "sm_100"):
        assert not resources.cuda_kernels(OPERATION, TARGETS[name], OPERATION.cases["model"])
    (reason,) = resources.unsupported(OPERATION)["cuda/wgmma"].items()
    assert reason == ("needs a GPU with wgmma, which came with sm_90a", "sm_75 sm_80 sm_86 sm_89 sm_100 sm_120")


def test_the_cpu_says_why_it_cannot_run_it():
    results = list(check(OPERATION, device="cpu"))
    assert {result.skipped for result in results} == {"needs a GPU with wgmma, which the CPU runtime does not have"}
    for run in (lambda *launch: KERNEL(*launch), lambda *launch: lens.trace(KERNEL, *launch)):
        with pytest.raises(CompileError) as error:
            run((1,), (128,), (torch.zeros(4), torch.zeros(4), 4))
        assert "hopper.cu:5: error: inline PTX runs on a GPU alone" in str(error.value)
        assert "5 |     asm volatile" in str(error.value)


def test_a_gpu_that_has_it_checks_it_by_the_same_cases():
    assert OPERATION.forward[0].unsupported(Case((2,)), Machine("cuda", "H200", (9, 0), None, False)) is None
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs a GPU of compute capability 9.0")
    results = list(check(OPERATION, device="cuda"))
    assert len(results) == 2 and not any(result.skipped or result.failure for result in results)
