"""Drawings: what they count is what the lens counts, and what they show can be read, seen and told apart."""

import itertools
import math
import re
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
import torch

import kernels
from kernels import diagrams, lens
from kernels.cuda import RawKernel
from kernels.diagrams import parts, scan
from kernels.diagrams.banks import passes
from kernels.diagrams.divergence import BY_LANE, BY_WARP, active
from kernels.diagrams.fragments import ACROSS, COLUMNS, ROWS
from kernels.diagrams.fragments import SIZE as FRAGMENT
from kernels.diagrams.key_tiles import BANDS, QUERIES, TILE, WINDOW, kind
from kernels.diagrams.owners import RUNGS, SIDE, rectangles
from kernels.diagrams.sectors import touched
from kernels.diagrams.shuffles import LANES
from kernels.diagrams.swizzle import place
from kernels.diagrams.triton_block import LAYOUT, owner
from kernels.lens.pictures import meant
from kernels.measure.recorded.accesses import CASES
from kernels.ops import attention

DRAWINGS = {
    "memory_hierarchy": diagrams.memory_hierarchy,
    "sectors 0": lambda: diagrams.sectors(0),
    "sectors 1": lambda: diagrams.sectors(1),
    "sectors 8": lambda: diagrams.sectors(8),
    "sectors 32": lambda: diagrams.sectors(32),
    "banks 0": lambda: diagrams.banks(0),
    "banks 1": lambda: diagrams.banks(1),
    "tree": diagrams.tree,
    "butterfly": diagrams.butterfly,
    "divergence": diagrams.divergence,
    "triton_block": diagrams.triton_block,
    "softmax_parts": diagrams.softmax_parts,
    "traffic": lambda: diagrams.traffic(
        {"apart": [("add", ["x", "bias"], ["h"]), ("gelu", ["h"], ["y"])], "fused": [("bias_gelu", ["x"], ["y"])]}
    ),
    "owners": diagrams.owners,
    "key_tiles": diagrams.key_tiles,
    "gradient_walks": diagrams.gradient_walks,
    "paged_cache": diagrams.paged_cache,
    "joined_parts": diagrams.joined_parts,
    "fragments": diagrams.fragments,
    "swizzle": diagrams.swizzle,
    "warp_scan": diagrams.warp_scan,
    "reads": lambda: diagrams.reads(
        {"a": (2, 4), "b": (4, 2)},
        (2, 2),
        {"y": (2, 2)},
        {"load": [(t, {"a": [t], "b": [t]}, {"tile_a": [t], "tile_b": [t]}) for t in range(4)], "spare": [(3, {}, {})]},
        {"tile_a": (2, 2), "tile_b": (2, 2)},
    ),
}
SIZE = {"small": 11.5, "": 13, "bold": 13}
CHARACTER = 0.56  # of a character's height, of most fonts, on average


@pytest.fixture(params=DRAWINGS, scope="module")
def drawing(request):
    return DRAWINGS[request.param]()


def pictures(drawing):
    found = re.findall(r"<svg.*?</svg>", drawing._repr_html_(), re.S)
    assert len(found) == len(drawing.steps)
    return [xml.fromstring(one) for one in found]


def placed(text):
    """Left, top, right and bottom of a text."""
    size = SIZE[text.get("class", "")]
    x, y, width = float(text.get("x")), float(text.get("y")), CHARACTER * size * len(text.text)
    left = {"start": x, "middle": x - width / 2, "end": x - width}[text.get("text-anchor", "middle")]
    return left, y - 0.4 * size, left + width, y + 0.4 * size


def test_labels_stand_apart_and_inside(drawing):
    for picture in pictures(drawing):
        _, _, width, height = map(float, picture.get("viewBox").split())
        labels = [(text.text, placed(text)) for text in picture.iter("text")]
        for words, (left, top, right, bottom) in labels:
            assert left >= 0 and top >= 0 and right <= width and bottom <= height, f"{words!r} leaves the drawing"
        for (one, a), (other, b) in itertools.combinations(labels, 2):
            apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
            assert apart, f"{one!r} lies on {other!r}"


def test_labels_fit_into_their_boxes(drawing):
    for picture in pictures(drawing):
        boxes = [tuple(float(box.get(name)) for name in ("x", "y", "width", "height")) for box in picture.iter("rect")]
        for text in picture.iter("text"):
            left, top, right, bottom = placed(text)
            x, y = (left + right) / 2, (top + bottom) / 2
            around = [box for box in boxes if box[0] < x < box[0] + box[2] and box[1] < y < box[1] + box[3]]
            if around:
                box = min(around, key=lambda one: one[2] * one[3])
                inside = box[0] <= left and right <= box[0] + box[2] and box[1] <= top and bottom <= box[1] + box[3]
                assert inside, f"{text.text!r} is larger than its box"


def test_words_say_what_a_picture_shows(drawing):
    words = [step.words for step in drawing.steps]
    assert all(len(one) > 25 and re.search(r"\d", one) for one in words) and len(set(words)) == len(words)
    assert all(one in repr(drawing) for one in words)
    for picture, said in zip(pictures(drawing), words, strict=True):
        named = {one.get("id"): one.text for one in picture if one.tag in ("title", "desc")}
        assert [named[one] for one in picture.get("aria-labelledby").split()] == [drawing.title, said]


def test_identifiers_differ_on_a_page(drawing):
    page = drawing._repr_html_() + diagrams.tree()._repr_html_() + diagrams.tree()._repr_html_()
    identifiers = re.findall(r' id="([^"]+)"', page)
    assert len(set(identifiers)) == len(identifiers)
    assert drawing._repr_html_() == drawing._repr_html_()


def test_html_is_one_line_and_asks_for_nothing(drawing):
    html = drawing._repr_html_()
    assert "\n" not in html and "http" not in html and "<script" not in html


def test_steps_have_buttons_that_the_style_knows():
    style = (Path(diagrams.__file__).parent / "diagram.css").read_text()
    known = len(re.findall(r"label:nth-of-type", style))
    assert max(len(make().steps) for make in DRAWINGS.values()) <= known


def luminance(colour):
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_joined_parts_are_those_of_the_row():
    """Whatever the parts: the words of the last step have the sum that the row has."""
    largest = max(parts.VALUES)
    total = sum(math.exp(x - largest) for x in parts.VALUES)
    assert parts.merge([(x, 1.0) for x in parts.VALUES]) == pytest.approx((largest, total))
    assert diagrams.softmax_parts().steps[-1].words.endswith(f"= {total:.2f}.")


@pytest.mark.parametrize("ground", ["#ffffff", "#121212", "#111111"])
@pytest.mark.parametrize("name", ["blue", "orange"])
def test_shapes_stand_out_in_both_themes(name, ground):
    style = (Path(diagrams.__file__).parent / "diagram.css").read_text()
    colour = re.search(rf"--{name}: (#\w+)", style)[1]
    dark, light = sorted([luminance(colour), luminance(ground)])
    assert (light + 0.05) / (dark + 0.05) >= 3


@pytest.mark.parametrize("stride", [1, 2, 8, 32])
def test_sectors_are_those_of_the_lens(stride):
    trace = lens.trace(*CASES["strides"][stride].launch())
    load = next(one for one in trace.accesses if one.kind == "load" and one.space == "global")
    drawn = diagrams.sectors(stride).steps[0].words
    assert f"{load.sectors // load.requests} sector" in drawn
    assert all(len(touched(one, 4)) * load.requests == load.sectors for one in load.samples)
    traced = diagrams.sectors(trace, kind="load")
    assert traced.steps[0].words == drawn and load.names[0] in traced.title


@pytest.mark.parametrize(("case", "padding"), [("tile", 0), ("padded tile", 1)])
def test_passes_are_the_wavefronts_of_the_lens(case, padding):
    trace = lens.trace(*CASES["transposes"][case].launch())
    read = meant(trace, "tile", None, "load")
    write = meant(trace, "tile", None, "store")
    drawing = diagrams.banks(padding)
    for step, access in zip(drawing.steps, (read, read, write), strict=True):
        each = access.wavefronts // access.requests
        assert f" {each} pass" in step.words
        assert all(passes(sample) == each for sample in access.samples)


def test_padding_must_not_be_negative():
    with pytest.raises(ValueError, match="padding: got -1"):
        diagrams.banks(-1)


COLUMN = """
extern "C" __global__ void column(const int* places, int* y)
{
    __shared__ int lines[8][32];
    for (int line = 0; line < 8; ++line) lines[line][threadIdx.x] = line;
    __syncwarp();
    y[threadIdx.x] = lines[threadIdx.x / 4][4 * places[threadIdx.x / 4] + threadIdx.x % 4];
}
"""


@pytest.mark.parametrize("vector", [0, 2, 7])
def test_a_vector_of_each_line_takes_the_passes_that_the_lens_counts(vector):
    drawing, places = diagrams.swizzle(vector), ([vector] * 8, [place(line, vector) for line in range(8)])
    for step, line_places in zip(drawing.steps, places, strict=True):
        y = torch.empty(32, dtype=torch.int32)
        trace = lens.trace(RawKernel(COLUMN, "column"), (1,), (32,), (torch.tensor(line_places).int(), y))
        (read,) = (one for one in trace.accesses if (one.kind, one.space) == ("load", "shared"))
        assert step.words.endswith(f": {read.wavefronts} pass{'es' * (read.wavefronts > 1)}.")
    with pytest.raises(ValueError, match="vector: got 8"):
        diagrams.swizzle(8)


def test_a_butterfly_leaves_the_sum_in_all_lanes():
    total = LANES * (LANES - 1) // 2
    assert f"Every lane has the sum, {total}, after 4 steps and 64 additions" in repr(diagrams.butterfly())
    assert f"Lane 0 alone has the sum, {total}, after 4 steps and {LANES - 1} additions" in repr(diagrams.tree())


def test_a_warp_scan_leaves_the_sum_up_to_each_lane():
    assert scan.held()[-1] == list(itertools.accumulate(scan.VALUES))
    assert "after 3 steps and 17 additions. A warp of 32 takes 5 steps" in repr(diagrams.warp_scan())


def test_a_warp_issues_both_ways_only_where_its_lanes_part():
    assert [len(lanes) for lanes in active(BY_LANE, 0)] == [32, 16, 16, 32]
    assert [len(lanes) for warp in (0, 1) for lanes in active(BY_WARP, warp)] == [32] * 6


def test_a_thread_holds_what_triton_says():
    # What `sizePerThread`, `threadsPerWarp` and `warpsPerCTA` mean, by hand.
    assert [owner(LAYOUT, 0, column) for column in (0, 3, 4, 63)] == [0, 0, 1, 15]
    assert [owner(LAYOUT, row, 0) for row in range(8)] == [0, 16, 32, 48, 64, 80, 96, 112]
    with pytest.raises(ValueError, match="two dimensions"):
        diagrams.triton_block("#ttg.blocked<{sizePerThread = [8], threadsPerWarp = [32]}>")


@pytest.mark.parametrize("rung", RUNGS)
def test_outputs_belong_to_the_warp_that_stores_them(rung):
    x, w = torch.ones(SIDE, 16, dtype=torch.bfloat16), torch.ones(16, SIDE, dtype=torch.bfloat16)
    variant = kernels.operation("matmul")[f"cuda/{rung}"]
    (trace,) = lens.count(variant, x=x, w=w, bias=None, activation="none").traces
    store = meant(trace, "y", None, "store")
    own = [one for one in store.samples if one.block == (0, 0, 0) and one.warp == 0]
    stored = {divmod(index, SIDE) for one in own for index in one.indices}
    assert own and stored <= RUNGS[rung].outputs(32)
    if rung != "wmma":  # after which a lane stores what others computed
        for one in own:
            for lane, index in zip(one.lanes, one.indices, strict=True):
                assert divmod(index, SIDE) in RUNGS[rung].thread_outputs(lane)
    assert len(RUNGS[rung].outputs(RUNGS[rung].threads)) * trace.blocks == SIDE * SIDE


def test_fragments_are_those_of_the_kernel():
    """What the source declares; that warps have these outputs is held above."""
    source = kernels.operation("matmul")["cuda/wmma"].source[0].read_text()
    assert f"wmma::accumulator, {FRAGMENT}, {FRAGMENT}, {FRAGMENT}, float> sums[{ROWS}][{COLUMNS}]" in source
    rows, columns = ROWS * FRAGMENT, COLUMNS * FRAGMENT
    assert RUNGS["wmma"].outputs(32) == {(i, j) for i in range(rows) for j in range(columns)}
    assert ACROSS * columns == SIDE
    assert f"4 warps have {SIDE} × {SIDE} outputs: {rows} × {columns} each" in repr(diagrams.fragments())


def test_rectangles_cover_the_outputs():
    outputs = {(0, 0), (0, 1), (1, 0), (1, 1), (3, 0), (3, 1), (5, 7)}
    assert sorted(rectangles(outputs)) == [(0, 0, 2, 2), (3, 0, 1, 2), (5, 7, 1, 1)]


@pytest.mark.parametrize(
    ("name", "causal", "window"), [("full", False, None), ("causal", True, None), (f"window of {WINDOW}", True, WINDOW)]
)
def test_tiles_of_keys_are_those_that_the_mask_leaves_and_the_kernel_walks_over(name, causal, window):
    q = torch.ones(1, 1, QUERIES, 16)
    tiles = (
        attention.seen(q, q, causal, window)
        .view(QUERIES // TILE, TILE, QUERIES // TILE, TILE)
        .transpose(1, 2)
        .flatten(2)
    )
    starts = range(0, QUERIES, TILE)
    drawn = [[kind(first, key, *BANDS[name]) for key in starts] for first in starts]
    meant = zip(tiles.any(-1).tolist(), tiles.all(-1).tolist(), strict=True)
    assert drawn == [
        ["seen by all" if every else "masked" if some else "skipped" for some, every in zip(*row, strict=True)]
        for row in meant
    ]
    (trace,) = lens.count(
        kernels.operation("attention")["cuda/tiled"], q=q, k=q, v=q, causal=causal, window=window
    ).traces
    visited = sum(one != "skipped" for row in drawn for one in row)
    assert trace.barriers == 4 * visited  # around the keys and around the values of each tile
    assert any(step.words.startswith(f"{visited} of ") for step in diagrams.key_tiles().steps)
