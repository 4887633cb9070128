"""Hardware facts: they equal NVIDIA's own, and stand in one place."""

import ast
import itertools
import re
import subprocess
from pathlib import Path

import pytest
import torch

from kernels import machine
from kernels.case import Case
from kernels.cuda.cpu.headers import cuda_headers
from kernels.hardware import REFERENCE, REFERENCE_MULTIPROCESSORS, TARGETS, Target, target_of, targets
from kernels.unsupported import needs_feature

PACKAGE = Path(targets.__file__).parents[1]

# What a GPU of the capability is like: the properties that a driver would tell, from the guide; the rest is in the header.
PROBE = """
#include <cstdio>
#include <cuda_occupancy.h>
int main() {
    int major, minor, found[5];
    while (std::scanf("%d %d", &major, &minor) == 2) {
        cudaOccDeviceProp gpu;
        gpu.computeMajor = major, gpu.computeMinor = minor;
        cudaOccMaxBlocksPerMultiprocessor(&found[0], &gpu);
        cudaOccSMemAllocationGranularity(&found[1], &gpu);
        cudaOccRegAllocationGranularity(&found[2], &gpu);
        cudaOccSubPartitionsPerMultiprocessor(&found[3], &gpu);
        size_t largest = 1024;
        for (size_t size = 1024; size <= 256 * 1024; size += 1024) {
            size_t rounded = size;
            if (cudaOccAlignUpShmemSizeVoltaPlus(&rounded, &gpu) == CUDA_OCC_SUCCESS) largest = rounded;
        }
        std::printf("%d %d %d %d %zu\\n", found[0], found[1], found[2], found[3], largest);
    }
}
"""


@pytest.mark.skipif(not machine.compiler(), reason="needs a C++ compiler")
def test_the_facts_are_those_of_cuda_occupancy_h(tmp_path):
    (tmp_path / "probe.cpp").write_text(PROBE)
    folders = [f"-I{folder}" for folder in cuda_headers()]
    command = [*machine.compiler(), *folders, str(tmp_path / "probe.cpp"), "-o", str(tmp_path / "probe")]
    subprocess.run(command, check=True)
    asked = "".join(f"{target.capability // 10} {target.capability % 10}\n" for target in TARGETS.values())
    said = subprocess.run([tmp_path / "probe"], input=asked, capture_output=True, text=True, check=True).stdout
    ours = [
        (
            target.blocks_per_multiprocessor,
            target.shared_unit,
            target.register_unit,
            target.partitions_per_multiprocessor,
            target.shared_bytes_per_multiprocessor,
        )
        for target in TARGETS.values()
    ]
    assert [tuple(map(int, line.split())) for line in said.splitlines()] == ours


def test_the_targets_are_from_old_to_new_and_follow_from_each_other():
    capabilities = [target.capability for target in TARGETS.values()]
    assert capabilities == sorted(capabilities) and REFERENCE in TARGETS.values()
    for older, newer in itertools.pairwise(TARGETS.values()):
        assert older.features <= newer.features | {"wgmma"}
    assert TARGETS["sm_90"].features == TARGETS["sm_90a"].features - {"wgmma"}
    assert (REFERENCE.shared_bytes_per_block, REFERENCE.warps_per_multiprocessor) == (232_448, 64)
    assert TARGETS["sm_75"].shared_bytes_per_block == 65_536


def telling_numbers() -> set[int]:
    """Those of the table that nobody writes by chance: above 100, and neither a power of two nor one below it."""
    fields = [name for name in Target.__dataclass_fields__ if name not in ("name", "features")]
    numbers = {getattr(target, name) for target in TARGETS.values() for name in fields}
    numbers |= {target.shared_bytes_per_block for target in TARGETS.values()} | {REFERENCE_MULTIPROCESSORS}
    return {number for number in numbers if number > 100 and number & (number - 1) and number & (number + 1)}


def numbers_in(code: str) -> set[int]:
    """Of a text of Python, with 48 << 10, 48 * 1024 and 2**31 - 1 worked out."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        words = ast.unparse(node) if isinstance(node, ast.BinOp | ast.Constant) else ""
        if re.fullmatch(r"[\d_\s()*+<-]+", words):
            found.add(eval(words))
    return found


def test_no_other_file_states_them():
    found = {
        str(path.relative_to(PACKAGE)): numbers_in(path.read_text()) & telling_numbers()
        for path in PACKAGE.rglob("*.py")
        if path.parent.name != "hardware"
    }
    stated = {name: sorted(numbers) for name, numbers in found.items() if numbers}
    assert not stated, "take them from kernels.hardware"


def test_numbers_are_found_however_they_are_written():
    code = "x = {'a': 48 << 10}\ny = f(1, 227 * 1024)\nz = (1_536, 132 + 0)\nw = shared[0] << 10"
    assert numbers_in(code) & telling_numbers() == {49_152, 232_448, 1_536, 132}
    assert {101_376, 102_400, 166_912, 167_936, 232_448, 233_472} < telling_numbers()


@pytest.mark.parametrize(
    ("capability", "name"),
    [((7, 0), "sm_75"), ((8, 7), "sm_86"), ((9, 0), "sm_90"), ((10, 3), "sm_100"), ((12, 1), "sm_120")],
)
def test_the_target_of_a_gpu(capability, name):
    assert target_of(capability).name == name


def test_a_feature_that_a_gpu_lacks_is_a_reason():
    case = Case((2, 2))

    def why(feature, name):
        return needs_feature(feature)(case, machine.with_gpu(TARGETS[name]))

    assert why("clusters", "sm_90") is why("clusters", "sm_120") is why("wgmma", "sm_90a") is None
    assert why("clusters", "sm_89") == "needs a GPU with clusters, which came with sm_90"
    assert "sm_90a" in why("wgmma", "sm_100")  # code for one GPU alone
    assert "CPU runtime" in needs_feature("clusters")(case, machine.here("cpu"))


def test_launches_on_a_cpu_are_planned_for_the_reference_or_as_asked():
    cpu = torch.device("cpu")
    assert machine.target(cpu) is REFERENCE and not machine.has(cpu, "clusters")
    with machine.planning(TARGETS["sm_86"]):
        assert machine.target(cpu).name == "sm_86" and not machine.has(cpu, "clusters")
        with machine.planning(REFERENCE):
            assert machine.has(cpu, "clusters")
    assert machine.target(cpu) is REFERENCE and not machine.has(cpu, "clusters")
