"""Profiles: what is read from Nsight Compute's table, and what is stored."""

import pytest

from book.recorders.profile import kernels_of_calls
from book.recorders.profile_calls import ACCESSES
from book.recorders.profile_metrics import asked, numbers
from kernels.measure.recorded import limits, profile
from kernels.measure.recorded.report import report

GPU = "NVIDIA H200"
STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio".format
HEAD = ("ID", "Kernel Name", "Block Size", "Grid Size", "gpu__time_duration.sum")


def table(*rows: tuple) -> str:
    lines = [",".join(f'"{value}"' for value in row) for row in (HEAD, ("",) * len(HEAD), *rows)]
    return "\n".join(["==PROF== Connected to process 1", *lines])


def test_kernels_are_told_apart_by_the_marks_between_calls():
    one = ("1", "void at::native::copy<4, float>(int, float*)", "(256, 1, 1)", "(132, 8, 1)", "1,234,500")
    two = ("2", "reread(const float *)", "(1024, 1, 1)", "(8, 1, 1)", "2,000")
    mark = ("0", "next_call(int *)", "(1, 1, 1)", "(1, 1, 1)", "900")
    first, second = kernels_of_calls(table(mark, one, two, mark, two))
    about = {"name": "copy<4, float>", "grid": [132, 8, 1], "block": [256, 1, 1]}
    assert first[0] == about | {"us": 1234.5, "shared_bytes": 0, "stalls": {}}
    assert [kernel["name"] for kernel in [*first, *second]] == ["copy<4, float>", "reread", "reread"]
    assert profile.longest(first)["us"] == 1234.5


def test_counters_that_cannot_be_read_are_an_error():
    with pytest.raises(SystemExit, match=r"cannot read the counters here(.|\n)*ERR_NVGPUCTRPERM"):
        kernels_of_calls("==ERROR== ERR_NVGPUCTRPERM")


def test_the_longest_stalls_are_kept_and_what_is_missing_left_out():
    stalls = {"long_scoreboard": "12.345", "barrier": "3.1", "wait": "2", "selected": "1", "membar": "0.5", "drain": ""}
    row = {STALLED(reason): value for reason, value in stalls.items()}
    row |= {STALLED("barrier_not_issued"): "99", "dram__bytes_read.sum": "1,000,000", "dram__bytes_write.sum": "n/a"}
    found = numbers(row)
    assert found["stalls"] == {"long_scoreboard": 12.35, "barrier": 3.1, "wait": 2, "selected": 1}
    assert (found["dram_read_mb"], "dram_mb" in found, "us" in found) == (1, False, False)


def test_only_metrics_that_are_there_are_asked_for():
    assert asked(["dram__bytes_read", "other"]) == ["dram__bytes_read.sum"]


def test_every_access_and_every_shape_of_layer_norm_is_profiled():
    stored = profile.stored(GPU)["profiles"]
    for group, keys in ACCESSES.items():
        for key in keys:
            (kernel,) = profile.find(GPU, group=group, case=key)
            assert set(kernel) >= {"us", "dram_mb", "load_sectors", "registers", "stalls"}
    calls = [one for one in stored if one.get("operation") == "layer_norm"]
    assert len({(one["direction"], *one["shape"]) for one in calls}) == 8
    assert all(one["kernels"] for one in stored)


def test_every_stored_stall_is_explained():
    kernels = [kernel for call in profile.stored(GPU)["profiles"] for kernel in call["kernels"]]
    assert {reason for kernel in kernels for reason in kernel["stalls"]} <= set(profile.STALLS)


def test_a_table_has_a_line_for_each_kernel():
    kernels = {"one": {"us": 1234.56, "registers": 16}, "another": {"us": 0.4567}}
    head, *lines = profile.table(kernels, "us", "registers").splitlines()
    assert [head.split(), *map(str.split, lines)] == [
        ["us", "registers"],
        ["one", "1,235", "16"],
        ["another", "0.457", "-"],
    ]
    assert len({len(line) for line in (head, *lines)}) == 1
    with pytest.raises(KeyError, match="megabytes"):
        profile.table(kernels, "megabytes")


def test_a_call_that_is_not_there_or_not_one_is_an_error():
    with pytest.raises(LookupError, match="fits 0 profiles"):
        profile.find(GPU, contestant="nobody")
    with pytest.raises(LookupError, match=r"fits \d\d profiles"):
        profile.find(GPU, direction="forward")


def test_a_report_has_the_numbers_of_its_kernels():
    (copy,) = profile.find(GPU, group="copies", case=("float4", 64))
    (chain,) = profile.find(GPU, group="chains", case=(1, 1))
    picture = report({"a copy": copy, "a chain": chain})
    first, second = picture.figure.frames
    assert [tuple(bar.x) for bar in picture.figure.data] == [tuple(bar.x) for bar in first.data]
    light, warps, stalls = first.data
    assert tuple(light.x) == (copy["dram_percent"], copy["issue_percent"])
    assert tuple(warps.x) == (copy["resident_percent"], copy["active_percent"])
    assert dict(zip(stalls.y, stalls.x, strict=True)) == {
        reason.replace("_", " ").title(): cycles for reason, cycles in copy["stalls"].items()
    }
    # The longest bar reaches the end of its axis, in each frame.
    assert second.layout.xaxis3.range[1] == pytest.approx(1.05 * max(chain["stalls"].values()))
    assert f"a chain: memory {chain['dram_percent']:g} %" in repr(picture)


def test_a_report_of_one_kernel_has_no_steps():
    assert report({"copy": profile.find(GPU, group="copies", case=("float4", 64))[0]}).figure.frames == ()


def test_a_launch_in_clusters_has_no_theoretical_occupancy():
    kernels = profile.find(GPU, contestant="cuda/cluster", shape=(8192, 32768), direction="backward")
    assert "resident_percent" not in kernels[0]
    assert report({"cluster": kernels[0]}).figure.data[1].x == (0, kernels[0]["active_percent"])


def test_a_limit_is_met_where_a_column_is_near():
    kernel = {"dram_percent": 74.9, "issue_percent": 74.9}
    assert limits.limit(kernel) == "latency"
    assert limits.limit(kernel | {"issue_percent": 75}) == "instructions"
    assert limits.limit({"dram_percent": 75, "issue_percent": 99}) == "bytes"
    assert limits.limit(kernel, near=70) == "bytes"


def test_every_long_kernel_is_a_point():
    kernels = [kernel for call in profile.stored(GPU)["profiles"] for kernel in call["kernels"]]
    points = limits.figure(GPU).figure.data
    assert sum(len(group.x) for group in points) == sum(kernel["us"] >= 20 for kernel in kernels)
    for group in points:
        assert {
            limits.limit({"dram_percent": x, "issue_percent": y}) for x, y in zip(group.x, group.y, strict=True)
        } == {group.name.removeprefix("limited by ")}
