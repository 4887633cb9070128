"""Pictures of a trace: they show what was counted, and a stored trace draws the same."""

import json

import pytest
import torch
from counted import floats, trace

from kernels import lens
from kernels.lens.pictures.cells import spans

pytest.importorskip("plotly")


def drawn(picture):
    """What JupyterLab and the book are given."""
    return json.dumps(picture._repr_mimebundle_())


def labels(picture, frame=None):
    """The lanes in the cells of each row."""
    touched = (picture.figure if frame is None else picture.figure.frames[frame]).data[1]
    rows = [[] for _ in range(max(touched.y) + 1)]
    for row, text in zip(touched.y, touched.text, strict=True):
        rows[row].append(text)
    return rows


def copy(stride=1, offset=0, blocks=1, **options):
    return trace("copy", (blocks,), (64,), (floats(4096), torch.zeros(64 * blocks), stride, offset), **options)


def test_a_sector_is_a_row_and_its_words_are_cells():
    picture = copy().figure("x")
    assert labels(picture) == [[str(lane) for lane in range(first, first + 8)] for first in (0, 8, 16, 24)]
    assert picture.figure.layout.yaxis.ticktext == ("x[0]", "x[8]", "x[16]", "x[24]")
    assert [frame.layout.yaxis.ticktext[0] for frame in picture.figure.frames] == ["x[0]", "x[32]"]
    assert picture.alt == (
        "Which sectors the lanes of a warp touch: load of x, 4 bytes a lane. "
        "warp 0 to warp 1: 4 sectors, 128 of 128 bytes used each."
    )


@pytest.mark.parametrize(("stride", "offset"), [(0, 0), (1, 0), (1, 1), (2, 0), (3, 5), (8, 0), (32, 0)])
def test_there_are_as_many_rows_as_sectors_were_counted(stride, offset):
    found = copy(stride, offset)
    picture = found.figure("x")
    rows = [len(labels(picture, frame)) for frame in range(len(picture.figure.frames))]
    (load,) = [one for one in found.accesses if one.kind == "load"]
    assert load.requests == len(rows) and load.sectors == sum(rows)


def test_an_offset_by_one_float():
    picture = copy(1, 1).figure("x")
    assert labels(picture)[0] == [str(lane) for lane in range(7)] and labels(picture)[4] == ["31"]
    assert "5 sectors, 128 of 160 bytes used" in picture.alt


def test_elements_are_those_of_the_tensor_and_not_of_its_storage():
    x = floats(4096)
    found = trace("copy", (1,), (32,), (x[8:], torch.zeros(32), 1, 0))
    (load,) = [one for one in found.accesses if one.kind == "load"]
    assert load.samples[0].indices == tuple(range(32)) and load.samples[0].offsets[0] == 32
    assert found.figure("x").figure.layout.yaxis.ticktext[0] == "x[0]"


@pytest.mark.parametrize(
    ("name", "args", "cells", "first"),
    [
        ("copy4", lambda: (floats(128), torch.zeros(128)), 2, "x[0–3]: lane 0"),
        ("copy_half", lambda: (floats(32).half(), torch.zeros(32).half()), 16, "x[0]: lane 0"),
    ],
)
def test_cells_are_as_wide_as_what_a_lane_asks_for(name, args, cells, first):
    picture = trace(name, (1,), (32,), args()).figure(kind="load")
    assert picture.figure.data[1].hovertext[0] == first
    assert {len(row) for row in labels(picture)} == {cells}
    assert picture.figure.data[0].z.shape[1] == cells


def test_a_broadcast_is_one_cell():
    found = trace("copy", (1,), (32,), (floats(32), torch.zeros(32), 0, 0))
    picture = found.figure("x")
    assert labels(picture) == [["0–31"]]
    assert not picture.figure.frames and picture.figure.layout.title.text == "warp 0: 1 sector, 4 of 32 bytes used"


def test_atomics_say_how_often_they_ask():
    found = trace("atomics", (2,), (32,), (torch.zeros(1), torch.zeros(256, dtype=torch.int32)))
    assert "1 sector, asked for 32 times" in found.figure("sum", kind="atomic").alt
    (bins,) = [one for one in found.accesses if one.names == ("bins",) and one.kind == "atomic"]
    assert f"{bins.sectors // bins.requests} sectors, asked for 32 times" in found.figure("bins", kind="atomic").alt


@pytest.mark.parametrize(("name", "passes"), [("transpose<32>", 32), ("transpose<33>", 1)])
def test_a_bank_is_a_column_and_a_pass_is_a_row(name, passes):
    found = trace(name, (1,), (32, 32), (floats(1024), torch.zeros(1024)))
    picture = found.figure("tile", kind="load")
    assert len(labels(picture)) == passes and len(picture.figure.frames) == 8
    assert sum(len(row) for row in labels(picture)) == 32
    # Lane n reads row n of column 0: a row of 32 floats leaves it in the same bank, one of 33 in the next.
    touched = picture.figure.data[1]
    bank = dict(zip(touched.text, touched.base, strict=True))
    assert [round(bank[lane]) for lane in ("0", "1", "31")] == ([0, 0, 0] if passes == 32 else [0, 1, 31])


@pytest.mark.parametrize(
    ("kind", "dtype", "stride"),
    [
        ("char", torch.int8, 1),
        ("float", torch.float32, 1),
        ("float", torch.float32, 6),
        ("double", torch.float64, 3),
        ("double", torch.float64, 0),  # half warps: two passes for one word
        ("float4", torch.float32, 1),
    ],
)
def test_there_are_as_many_rows_as_wavefronts_were_counted(kind, dtype, stride):
    x = torch.ones(256).to(dtype)
    found = trace(f"through_shared<{kind}>", (1,), (64,), (x, torch.zeros_like(x), stride), 64 * 16 * max(stride, 1))
    for access in (one for one in found.accesses if one.space == "shared"):
        picture = found.figure(line=access.line, kind=access.kind, array=access.names[0])
        rows = sum(len(labels(picture, frame)) for frame in range(len(picture.figure.frames)))
        assert len(picture.figure.frames) == access.requests and rows == access.wavefronts


def test_one_frame_a_launch():
    strides = {f"stride {stride}": copy(stride) for stride in (1, 2, 8)}
    picture = lens.figure(strides, "x")
    assert [frame.name.split(",")[0] for frame in picture.figure.frames] == [
        "stride 1: 4 sectors",
        "stride 2: 8 sectors",
        "stride 8: 32 sectors",
    ]
    assert picture.figure.layout.yaxis.range == (31.5, -0.5)


def test_another_request():
    picture = lens.figure({"a": copy(), "b": copy(2)}, "x", request=1)
    assert [frame.layout.yaxis.ticktext[0] for frame in picture.figure.frames] == ["x[32]", "x[64]"]
    assert copy(blocks=2).figure("x", request=3).figure.layout.title.text.startswith("warp 1: 4 sectors")
    with pytest.raises(IndexError, match="got 2, expected 0 to 1"):
        copy().figure("x", request=2)


def test_a_stored_trace_draws_the_same():
    found = trace("transpose<32>", (2,), (32, 32), (floats(2048), torch.zeros(2048)))
    again = type(found).from_json(found.as_json())
    for array, kind in (("x", "load"), ("tile", "store"), ("tile", "load")):
        assert drawn(again.figure(array, kind=kind)) == drawn(found.figure(array, kind=kind))


def test_which_requests_are_kept():
    found = copy(blocks=6)
    (load,) = [one for one in found.accesses if one.kind == "load"]
    assert [(one.block, one.warp) for one in load.samples] == [((b, 0, 0), w) for b in range(4) for w in range(2)]
    assert copy(blocks=6, seed=3).accesses == found.accesses
    loop = trace("long_rows", (2,), (64,), (torch.ones(128, 5000), torch.zeros(128), 5000))
    (load,) = [one for one in loop.accesses if one.kind == "load"]
    assert {(one.block, one.warp) for one in load.samples} == {((0, 0, 0), 0)}
    assert [one.indices[0] for one in load.samples] == list(range(8))
    assert len(loop.figure(kind="load").figure.frames) == 8
    assert loop.figure(kind="load").figure.frames[1].name.startswith("warp 0, request 2: 32 sectors")


def test_errors_say_what_there_is():
    found = trace("transpose<33>", (1,), (32, 32), (floats(1024), torch.zeros(1024)))
    with pytest.raises(ValueError, match="array='tile' means several accesses of transpose<33>") as raised:
        found.figure("tile")
    assert "store tile" in str(raised.value) and "load tile" in str(raised.value) and "load x" not in str(raised.value)
    with pytest.raises(ValueError, match="array='z', line=3 means no access"):
        found.figure("z", line=3)
    with pytest.raises(ValueError, match="an empty mapping"):
        lens.figure({}, "x")
    with pytest.raises(ValueError, match="one kind and width"):
        lens.figure({"a": copy(), "b": trace("copy4", (1,), (32,), (floats(128), torch.zeros(128)))}, kind="load")


def test_numbers_in_few_words():
    assert spans([0, 1, 2, 3]) == "0–3"
    assert spans([0, 2, 3, 7]) == "0, 2–3, 7"
    assert spans([5]) == "5"


def test_cells_can_be_read_in_light_and_dark():
    """Contrast by WCAG: 3:1 of a cell with the page, 4.5:1 of the black text on it."""

    def luminance(color):
        channels = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    def contrast(one, other):
        dark, light = sorted((luminance(one), luminance(other)))
        return (light + 0.05) / (dark + 0.05)

    touched = copy().figure("x").figure.data[1]
    assert touched.textfont.color == "black"
    for _, color in touched.marker.colorscale:
        assert contrast(color, "#ffffff") >= 3 and contrast(color, "#121212") >= 3
        assert contrast(color, "#000000") >= 4.5
