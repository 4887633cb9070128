"""Every variant in CUDA C asks of the memory system what it asked before: stored/counters has it, launch by launch."""

import functools
import json
from pathlib import Path

import pytest
from stored.counters import Run, as_json, differences, runs

import kernels
from kernels import machine

PATHS = {path.stem: path for path in (Path(__file__).parents[1] / "stored" / "counters").glob("*.json")}
STORED = {name: json.loads(path.read_text()) for name, path in PATHS.items()}
OPERATIONS = [kernels.operation(name) for name in kernels.operations()]
VARIANTS = [
    pytest.param(op, variant, id=f"{op.name} {variant.key}")
    for op in OPERATIONS
    for variant in op.variants
    if variant.level == 5
]
IF_MEANT = "If this is meant: make counters, and read the difference."


@functools.cache
def runs_of(operation):
    return runs(kernels.operation(operation))


@pytest.mark.skipif(not machine.compiler(), reason="needs a C++ compiler")
@pytest.mark.parametrize(("op", "variant"), VARIANTS)
def test_counters_are_as_stored(op, variant):
    changed = []
    for name, run in runs_of(op.name).items():
        if f" {variant.key} " in name:
            found = run.launches() if isinstance(run, Run) else run
            if lines := differences(STORED.get(op.name, {}).get(name), found):
                changed += [name, *lines]
    assert not changed, "\n".join(["counters have changed", *changed, IF_MEANT])


def test_nothing_else_is_stored():
    for op in OPERATIONS:
        assert set(STORED.get(op.name, {})) == set(runs_of(op.name)), f"{op.name}: {IF_MEANT}"


def test_every_variant_is_counted_or_says_why():
    """A rung that launches on a CPU only what earlier ones do is one that a GPU alone can run as it is meant."""
    for op in OPERATIONS:
        for variant in (one for one in op.variants if one.level == 5):
            stored_rungs = STORED.get(op.name, {}).items()
            found = [(name, what) for name, what in stored_rungs if f" {variant.key} " in name]
            # A gradient may ask for what its forward does: rope turns it back.
            own = [
                name
                for name, what in found
                if isinstance(what, list) or {name[:8], what[:8]} == {"backward", "forward "}
            ]
            machine = kernels.machine.here("cpu")
            everywhere = all(variant.unsupported(case, machine) is None for case in op.cases["bench"])
            one_gpu = any(path.name == "wgmma.cuh" for path in variant.source)  # compiled for sm_90a alone
            assert own or one_gpu or not everywhere, variant.key


def test_our_own_kernels_have_nothing_wrong():
    for op, stored in STORED.items():
        for name, launches in stored.items():
            for launch in launches if isinstance(launches, list) else ():
                assert not {"findings", "error"} & launch.keys(), f"{op} {name}"


def test_the_files_are_as_the_command_writes_them():
    for op, path in PATHS.items():
        assert as_json(STORED[op]) == path.read_text()


# Seeing red: what a change looks like.

BEFORE = [
    {"kernel": "rows", "grid": [3], "block": [32], "global_load_sectors": 96, "bytes_moved": 3072},
    {"kernel": "sums", "grid": [1], "block": [32], "barriers": 2},
]


def changed(launch, **members):
    return [{**one, **members} if one["kernel"] == launch else one for one in BEFORE]


@pytest.mark.parametrize(
    ("stored", "found", "lines"),
    [
        (BEFORE, BEFORE, []),
        ("the other", "the other", []),
        (
            BEFORE,
            changed("rows", global_load_sectors=1024, bytes_moved=32768),
            [
                "  launch 1 of 2, rows:",
                "    global_load_sectors: stored 96, counted 1,024, difference +928",
                "    bytes_moved: stored 3,072, counted 32,768, difference +29,696",
            ],
        ),
        (
            changed("sums", barriers=0),
            changed("sums", grid=[2], shared_load_wavefronts=4),
            [
                "  launch 2 of 2, sums:",
                "    grid: stored [1], counted [2]",
                "    barriers: stored 0, counted 2, difference +2",
                "    shared_load_wavefronts: stored 0, counted 4, difference +4",
            ],
        ),
        (
            BEFORE,
            changed("rows", findings=["line 3: race"]),
            ["  launch 1 of 2, rows:", "    findings: stored nothing, counted ['line 3: race']"],
        ),
        (BEFORE, BEFORE[:1], ["  stored: 2 launches: rows, sums", "  counted: 1 launches: rows"]),
        (BEFORE, "the other", ["  stored: 2 launches: rows, sums", "  counted: as the other"]),
        (None, BEFORE, ["  stored: nothing", "  counted: 2 launches: rows, sums"]),
    ],
)
def test_a_change_is_reported(stored, found, lines):
    assert differences(stored, found) == lines
