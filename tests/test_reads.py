"""The drawing of who reads what: its words, and its lines from cell to cell."""

import re

import pytest

from kernels import diagrams

X, Y = {"x": (2, 3)}, {"y": 4}
STEPS = {
    "one": [(2, {"x": [5]}, {"y": [2]})],
    "spare": [(3, {}, {})],
    "all": [(t, {"x": [t]}, {"tile": [t]}) for t in range(4)],
}


def drawn(steps, shared=None):
    return diagrams.reads(X, 4, Y, steps, shared)


def test_it_says_what_it_shows():
    one, spare, every = str(drawn(STEPS, {"tile": 4})).splitlines()[1:]
    assert one == "one: Thread 2 reads x[1, 2] and writes y[2]."
    assert spare == "spare: Thread 3 has no element: it does nothing."
    first = "Thread 0 reads x[0, 0] and writes tile[0]. Thread 1 reads x[0, 1] and writes tile[1]. And so on. "
    assert every == f"all: {first}Thread 3 reads x[1, 0] and writes tile[3]."


def test_an_arrow_for_each_access_and_every_cell_within_the_drawing():
    for step in drawn(STEPS, {"tile": 4}).steps:
        shapes = " ".join(step.canvas.elements)
        accesses = sum(len(at) for _, *both in STEPS[step.label] for arrays in both for at in arrays.values())
        assert shapes.count("<polygon") == accesses
        assert shapes.count("<rect") == 6 + 4 + 4 + 4
        for name, most in (("x", step.canvas.width), ("y", step.canvas.height)):
            places = [float(place) for place in re.findall(rf' {name}[12]?="([^"]+)"', shapes)]
            assert 0 <= min(places) <= max(places) <= most


def test_arrays_and_threads_of_one_size_lie_below_each_other():
    (step,) = diagrams.reads({"x": 4}, 4, {"y": 4}, {"": STEPS["spare"]}).steps
    places = [re.search(r'<rect.* x="([^"]+)"', shape)[1] for shape in step.canvas.elements if "<rect" in shape]
    assert places[:4] == places[4:8] == places[8:]


@pytest.mark.parametrize(
    ("move", "said"),
    {
        (0, "z", 0): "array 'z', expected one of x, threads, y",
        (0, "x", 6): r"x\[6\], expected less than 6",
        (4, "x", 0): r"threads\[4\], expected less than 4",
    }.items(),
)
def test_what_is_not_there_is_an_error(move, said):
    thread, array, element = move
    with pytest.raises(ValueError, match=said):
        drawn({"": [(thread, {array: [element]}, {})]})
