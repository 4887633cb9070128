"""The lens against the counters of an H200: equal wherever the machine code does what the source says."""

import importlib.metadata
import importlib.util
import json

import pytest
from hardware.comparable import differences
from hardware.counters import COMPARED
from hardware.judged import judged
from hardware.launch import FOLDER
from hardware.launches import LAUNCHES, names
from hardware.machine_code import MachineCode, disassemble, disassembler, machine_code
from hardware.source_loops import source_loops

from kernels.lens.result import Access

STORED = json.loads((FOLDER / "hardware.json").read_text())
# Counters hold for the source that they were read from. Those of other folders may have changed since.
CURRENT = [launch for launch in LAUNCHES if STORED["launches"].get(launch.name, {}).get("text") == launch.digest]
COMPARABLE = [one for one in CURRENT if not (one.wide_atomics or STORED["launches"][one.name]["differences"])]
OURS = [launch for launch in LAUNCHES if launch.path.parent == FOLDER]


def unequal(lens, hardware):
    """The counters that are not the same: both numbers by name."""
    return {name: (lens[name], hardware[name]) for name in COMPARED if lens[name] != hardware[name]}


def shown(lens, hardware):
    """Both numbers of every counter that is not zero."""
    return ", ".join(f"{n} {lens[n]:,} ({hardware[n]:,})" for n in COMPARED if lens[n] or hardware[n])


@pytest.mark.parametrize("launch", CURRENT, ids=lambda launch: launch.name)
def test_the_lens_equals_hardware(launch):
    stored = STORED["launches"][launch.name]
    found = judged(launch, STORED["codes"])
    assert bool(found.differences) == bool(stored["differences"]), (
        f"was {stored['differences']}, now {found.differences}"
    )
    if found.differences:
        numbers = shown(found.totals, stored["counters"])
        pytest.skip(f"not comparable: {'; '.join(found.differences)}. Lens (hardware): {numbers}")
    wrong = unequal(found.totals, stored["counters"])
    if launch.wide_atomics:
        fewer, more = wrong.pop("global_atomic_sectors")
        assert 0 < more - fewer <= found.totals["global_atomic_requests"]
    assert wrong == {}


def test_nearly_all_launches_are_compared():
    missing = [launch.name for launch in OURS if launch not in CURRENT]
    assert not missing, "these have changed since their counters were read: run hardware/collect.py on a GPU"
    assert len(CURRENT) >= 60
    assert len(COMPARABLE) >= 5 / 6 * len(CURRENT)


def test_every_counter_is_compared_where_it_matters():
    for counter in COMPARED:
        values = {STORED["launches"][launch.name]["counters"][counter] for launch in COMPARABLE}
        assert any(values), counter


@pytest.mark.parametrize("path", dict.fromkeys(launch.path for launch in CURRENT), ids=lambda path: path.name)
def test_the_machine_code_is_that_of_the_gpu(path):
    if not importlib.util.find_spec("cuda.core") or not disassembler():
        pytest.skip("needs NVIDIA's compiler, cuda.core and cuda-toolkit[nvrtc], and nvdisasm")
    here = importlib.metadata.version("nvidia-cuda-nvrtc")
    if not here.startswith(STORED["machine"]["nvrtc"] + "."):
        pytest.skip(f"NVRTC here is {here}, on the GPU it was {STORED['machine']['nvrtc']}")
    from hardware.compile import compiled

    cubin, symbols = compiled(path, names(path))
    text = disassemble(cubin)
    for name, symbol in symbols.items():
        assert machine_code(text, symbol, path.name).as_json() == STORED["codes"][f"{path.name} {name}"], name


# Seeing red: what the comparison and its rule must not let pass.


def test_a_changed_counter_is_seen():
    counters = STORED["launches"][LAUNCHES[0].name]["counters"]
    assert unequal(counters, counters) == {}
    for name in COMPARED:
        assert unequal(counters, counters | {name: counters[name] + 1}) == {name: (counters[name], counters[name] + 1)}


TEXT = """void f(float* x, float* y, int n) {
    for (int i = 0; i < n; ++i) {
        y[i] += x[i];
    }
#pragma unroll
    for (int k = 0; k < 3; ++k) {
        y[k] = 1;
    }
}
"""


def access(line, kind, width=4, instructions=1, requests=10, lanes=320):
    return Access(line, kind, "global", width, ("x",), instructions, requests, lanes, 0, 0, 0, 0, 0)


SEEN = [access(3, "load", instructions=2), access(3, "store"), access(7, "store")]
LOADS = [["LDG.E", "global", "load", 4, [3], 1, [[2]]]] * 2
STORES = [["STG.E", "global", "store", 4, [3], 1, [[2]]]]
LAST = [["STG.E", "global", "store", 4, [7], 0, []]] * 3
IN_PIECES = [access(3, "load", instructions=2, lanes=100), *SEEN[1:]]


@pytest.mark.parametrize(
    "seen, accesses, reason",
    [
        (SEEN, LOADS + STORES + LAST, None),
        (SEEN, LOADS * 4 + STORES * 4 + LAST, None),  # unrolled, all lanes together
        (SEEN[:2] + [access(7, "store", instructions=3)], LOADS + STORES + LAST, None),  # both compilers unrolled
        (SEEN, LOADS[:1] + STORES + LAST, "line 3, global memory: 1 load for 2"),
        (
            SEEN,
            [["LDG.E.64", "global", "load", 8, [3], 1, []]] + STORES + LAST,
            "8 (LDG.E.64): accesses were put together",
        ),
        (
            SEEN,
            [LOADS[0], LOADS[0][:5] + [0, []]] + STORES + LAST,
            "line 3, global memory: LDG.E was taken out of its loop",
        ),
        (SEEN, LOADS + LAST, "line 3, global memory: the text writes, the machine code has no store"),
        (SEEN, LOADS + STORES + LAST[:2], "line 7, global memory: 2 stores for 1 in the text and 3 rounds of a loop"),
        (SEEN, LOADS + STORES + LAST[:1], "1 store for 1 in the text and 3 rounds"),
        (SEEN, LOADS + STORES + [one[:5] + [1, []] for one in LAST], "in a loop that the text does not have"),
        (SEEN, LOADS * 4 + LOADS[:1] + STORES + LAST, "9 loads for 2 in the text: copies, not all of them alike"),
        (
            IN_PIECES,
            LOADS * 4 + STORES + LAST,
            "8 loads for 2 in the text: copies, which the lanes of a warp do not run together",
        ),
    ],
)
def test_what_the_compiler_did_is_seen(seen, accesses, reason):
    code = MachineCode.from_json({"accesses": accesses, "loops": [[2]]})
    found = differences(code, seen, source_loops(TEXT, "f"))
    assert (reason is None) == (found == []), found
    assert reason is None or reason in found[0]


DISASSEMBLY = """
.text.f:
	//## File "/tmp/a.cu", line 3
        /*0000*/              @P0 EXIT ;
	//## File "/tmp/a.cu", line 4
        /*0008*/                   ISETP.NE.AND P1, PT, R2, RZ, PT ;
.L_x_1:
	//## File "/tmp/a.cu", line 9 inlined at "/tmp/a.cu", line 5
	//## File "/tmp/a.cu", line 5
        /*0010*/                   LDG.E.U8.CONSTANT R6, desc[UR12][R6.64] ;
.L_x_2:
        /*0020*/             @!P1 STS.128 [R4], R8 ;
	//## File "/tmp/a.cu", line 6
        /*0030*/              @P1 BRA `(.L_x_2) ;
	//## File "/usr/include/cuda_fp16.hpp", line 77 inlined at "/tmp/a.cu", line 7
	//## File "/tmp/a.cu", line 7
        /*0040*/                   RED.E.ADD.STRONG.GPU desc[UR4][R2.64], R5 ;
        /*0050*/              @P0 BRA `(.L_x_1) ;
        /*0060*/                   LDGSTS.E.BYPASS.128 [R5], desc[UR4][R2.64] ;
        /*0070*/                   EXIT ;
.L_x_3:
        /*0080*/                   BRA `(.L_x_3);
//--------------------- .text.g
"""


def test_machine_code_is_read():
    code = machine_code(DISASSEMBLY, "f", "a.cu")
    assert [(a.space, a.kind, a.width, a.lines, a.loops, a.guards) for a in code.accesses] == [
        ("global", "load", 1, (9, 5), 1, ()),
        ("shared", "store", 16, (9, 5), 2, ((4,),)),
        ("global", "atomic", 4, (7,), 1, ()),
        ("global", "load", 16, (7,), 0, ((3,),)),
        ("shared", "store", 16, (7,), 0, ((3,),)),
    ]
    assert code.loops == ((6,), (7,))


def test_loops_of_a_text_are_found():
    text = """
constexpr int W = 2 * 3;  // for (;;)
for (int i = W - 1; i >= 0; --i) a[i] = 0;
do {
    x--;
} while (x > 0);
while (y) if (z) { q; } else
    for (int k = 8; k > 0; k >>= 1) p;
for (int j = threadIdx.x; j < 32; j += 8) {
    for (int k = 0; k < T; k += 2) {
    }
}
template <int T> void f(int* p) {}
"""
    found = [(loop.first, loop.last, loop.trips) for loop in source_loops(text, "f<16>")]
    assert found == [(3, 3, 6), (4, 6, None), (7, 8, None), (8, 8, 4), (9, 12, None), (10, 11, 8)]
